//! NodeClaims as the mirror of claims.

use crate::kinds::NodeClaims;
use crate::object_cluster::ObjectCluster;
use crate::objects::{Objects, refuse_doubt};
use async_trait::async_trait;
use nodeless_api::managed::Owned;
use nodeless_model::NodeClaim;
use nodeless_ports::cluster::{FoundNodeClaims, InvalidObject, MirroredClaim, OtherNodeClaim, Outline};
use nodeless_ports::{ClaimMirror, ErrorKind, PortError};
use std::collections::BTreeSet;

#[async_trait]
impl<O: Objects> ClaimMirror for ObjectCluster<O> {
    async fn mirrored_claims(&self) -> Result<FoundNodeClaims, PortError> {
        let (claims, invalid) = self.objects.current::<NodeClaims>(&self.context).await?;
        refuse_doubt(true, &invalid)?;
        let (mirrors, others) = Owned::separate(claims);
        Ok(FoundNodeClaims { mirrors, others })
    }

    async fn mirrored_claim(&self, name: &str) -> Result<Option<MirroredClaim>, PortError> {
        match self.get_one::<NodeClaims>(name).await? {
            Some(Owned::Managed(claim)) => Ok(Some(claim)),
            Some(Owned::Other(other)) => {
                Err(PortError::new(ErrorKind::Invalid, "Kubernetes get NodeClaim", other.to_string()))
            }
            None => Ok(None),
        }
    }

    async fn mirrors_of(&self, names: &[String]) -> Result<(Vec<MirroredClaim>, Vec<InvalidObject>), PortError> {
        if let [name] = names {
            return match self.mirrored_claim(name).await {
                Ok(found) => Ok((found.into_iter().collect(), Vec::new())),
                Err(error) if error.kind == ErrorKind::Invalid => {
                    let (kind, name, outline) = ("NodeClaim".to_owned(), name.clone(), Outline::default());
                    Ok((Vec::new(), vec![InvalidObject { kind, name, message: error.message, outline }]))
                }
                Err(error) => Err(error),
            };
        }
        let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        let is_sought = |one: &Owned<MirroredClaim, OtherNodeClaim>| match one {
            Owned::Managed(claim) => names.contains(claim.name.as_str()),
            Owned::Other(other) => names.contains(other.name.as_str()),
        };
        let current = self
            .objects
            .current_selected::<NodeClaims, _, _>(&self.context, |_, one| is_sought(one).then(|| one.clone()));
        let (found, mut invalid) = current.await?;
        let (claims, others) = Owned::separate(found);
        invalid.retain(|object| names.contains(object.name.as_str()));
        invalid.extend(others.iter().map(InvalidObject::from));
        Ok((claims, invalid))
    }

    async fn mirror_claim(&self, claim: &NodeClaim) -> Result<String, PortError> {
        self.mirror(claim).await
    }

    async fn remove_claim(&self, name: &str, uid: Option<&str>) -> Result<(), PortError> {
        self.remove_mirror(name, uid).await
    }
}
