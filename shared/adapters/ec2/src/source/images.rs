//! AMIs of an EC2NodeClass, read from SSM and EC2.

use super::filters::sdk_filters;
use crate::log_lines::{ParameterUnread, ParameterWithoutAmi};
use aws_sdk_ec2::types;
use jiff::{SignedDuration, Timestamp};
use nodeless_api::EC2NodeClassSpec;
use nodeless_api::nodeclass::Ami;
use nodeless_aws::port_error;
use nodeless_launch::node_class::amis::{
    AliasParameter, Image, ImageQuery, Variant, alias_parameters, image_queries, kept, select,
};
use nodeless_launch::node_class::query::terms_in_words;
use nodeless_launch::node_class::{Problem, Section};
use nodeless_ports::{ErrorKind, PortError};
use nodeless_telemetry::Context;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The clients that find AMIs.
pub(super) struct ImageSource<'a> {
    pub(super) ec2: &'a aws_sdk_ec2::Client,
    pub(super) ssm: &'a aws_sdk_ssm::Client,
    pub(super) parameters: &'a Parameters,
    pub(super) context: &'a Context,
    /// The name of the EC2NodeClass.
    pub(super) node_class: &'a str,
}

/// How long the AMI of a parameter is cached. A pinned version never changes; only `latest` does.
const PARAMETER_LIFETIME: SignedDuration = SignedDuration::from_hours(1);

/// AMIs of SSM parameters, cached for the life of the process, so that a class that is resolved every few minutes calls SSM once
/// an hour. A parameter without an AMI is read each time.
#[derive(Debug, Default)]
pub(super) struct Parameters(Mutex<BTreeMap<String, (String, Timestamp)>>);

impl Parameters {
    fn get(&self, name: &str, now: Timestamp) -> Option<String> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (image, read) = known.get(name)?;
        (now.duration_since(*read) < PARAMETER_LIFETIME).then(|| image.clone())
    }

    fn insert(&self, name: &str, image: &str, now: Timestamp) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(name.to_owned(), (image.to_owned(), now));
    }
}

impl ImageSource<'_> {
    /// Finds the AMIs of a class for a Kubernetes version. `previous` are those that the same spec selected before.
    ///
    /// # Errors
    /// When SSM or EC2 cannot be read.
    pub(super) async fn find(
        &self,
        spec: &EC2NodeClassSpec,
        kubernetes: &str,
        previous: &[Ami],
        now: Timestamp,
    ) -> Result<Section<Vec<Ami>>, PortError> {
        let (amis, looked_for) = match spec.alias() {
            Some((family, version)) => match alias_parameters(family, version, kubernetes) {
                Ok(parameters) => self.amis_of_alias(&parameters, previous, now).await?,
                Err(problem) => return Ok(Section { value: Vec::new(), problem: Some(problem) }),
            },
            None => {
                let (images, looked_for) = self.images_of_terms(spec, now).await?;
                (select(images), looked_for)
            }
        };
        let problem =
            amis.is_empty().then(|| Problem::new("AMINotFound", format!("spec.amiSelectorTerms: {looked_for}")));
        Ok(Section { value: amis, problem })
    }

    /// The AMIs of the parameters of an alias, and what was searched. A parameter that does not exist is skipped, as in Karpenter; so
    /// is one that cannot be read, whose previous AMI is kept.
    async fn amis_of_alias(
        &self,
        parameters: &[AliasParameter],
        previous: &[Ami],
        now: Timestamp,
    ) -> Result<(Vec<Ami>, String), PortError> {
        let node_class = self.node_class;
        let mut ids: BTreeMap<String, Vec<Variant>> = BTreeMap::new();
        let mut unread: Vec<(&AliasParameter, PortError)> = Vec::new();
        for parameter in parameters {
            let name = parameter.name.as_str();
            match self.parameter(name, now).await {
                Ok(Some(id)) => ids.entry(id).or_default().extend(&parameter.variants),
                Ok(None) => self.context.log(&ParameterWithoutAmi { node_class, parameter: name }),
                Err(error) => {
                    self.context.log(&ParameterUnread { node_class, parameter: name, error: &error.to_string() });
                    unread.push((parameter, error));
                }
            }
        }
        let mut amis = select(self.images_of_variants(&ids, now).await?);
        amis.extend(kept(previous, unread.iter().map(|(parameter, _)| *parameter)));
        if let Some((_, error)) = unread.into_iter().next().filter(|_| ids.is_empty()) {
            return Err(error);
        }
        let names: Vec<&str> = parameters.iter().map(|parameter| parameter.name.as_str()).collect();
        let searched = names.join(", ");
        Ok((amis, format!("no image behind the SSM parameters {searched}; check the version in the alias")))
    }

    async fn images_of_variants(
        &self,
        ids: &BTreeMap<String, Vec<Variant>>,
        now: Timestamp,
    ) -> Result<Vec<(Image, Vec<Variant>)>, PortError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let images = self.describe(&ImageQuery::by_ids(ids.keys().cloned()), now).await?;
        let with_variants = images.into_iter().map(|image| {
            let variants = ids.get(&image.id).cloned().unwrap_or_default();
            (image, variants)
        });
        Ok(with_variants.collect())
    }

    async fn images_of_terms(
        &self,
        spec: &EC2NodeClassSpec,
        now: Timestamp,
    ) -> Result<(Vec<(Image, Vec<Variant>)>, String), PortError> {
        let terms = &spec.ami_selector_terms;
        let mut ids = Vec::new();
        let mut empty = Vec::new();
        for name in terms.iter().filter_map(|term| term.ssm_parameter.as_deref()) {
            match self.parameter(name, now).await? {
                Some(id) => ids.push(id),
                None => {
                    self.context.log(&ParameterWithoutAmi { node_class: self.node_class, parameter: name });
                    empty.push(format!("SSM parameter {name} is missing or holds no image id"));
                }
            }
        }
        let mut images: BTreeMap<String, Image> = BTreeMap::new();
        for query in image_queries(terms, &ids) {
            images.extend(self.describe(&query, now).await?.into_iter().map(|image| (image.id.clone(), image)));
        }
        let plain = terms.iter().filter(|term| term.ssm_parameter.is_none());
        let words = terms_in_words(plain.map(|term| (term.tags.as_ref(), term.id.as_deref(), term.name.as_deref())));
        let mut looked_for = empty;
        looked_for.extend(
            ids.iter().map(|id| format!("no available x86_64 or arm64 image {id}, which an SSM parameter names")),
        );
        if !words.is_empty() {
            looked_for.push(format!("no available x86_64 or arm64 image with {words}"));
        }
        Ok((images.into_values().map(|image| (image, Vec::new())).collect(), looked_for.join("; ")))
    }

    /// The AMI id in a parameter; `None` if the parameter does not exist, or contains something else.
    async fn parameter(&self, name: &str, now: Timestamp) -> Result<Option<String>, PortError> {
        if let Some(known) = self.parameters.get(name, now) {
            return Ok(Some(known));
        }
        let read = self.read_parameter(name).await?;
        if let Some(image) = &read {
            self.parameters.insert(name, image, now);
        }
        Ok(read)
    }

    async fn read_parameter(&self, name: &str) -> Result<Option<String>, PortError> {
        let answer = self.ssm.get_parameter().name(name).send().await;
        match answer.map_err(|error| port_error("SSM GetParameter", &error)) {
            Ok(answer) => {
                let value = answer.parameter().and_then(|parameter| parameter.value()).map(str::trim);
                Ok(value.filter(|value| value.starts_with("ami-")).map(str::to_owned))
            }
            Err(error) if error.kind == ErrorKind::NotFound || error.code == "ParameterVersionNotFound" => Ok(None),
            Err(mut error) => {
                error.message = format!("{} (parameter {name})", error.message);
                Err(error)
            }
        }
    }

    async fn describe(&self, query: &ImageQuery, now: Timestamp) -> Result<Vec<Image>, PortError> {
        let mut filters = query.filters.clone();
        filters.push(("state".to_owned(), vec!["available".to_owned()]));
        let owners = (!query.owners.is_empty()).then(|| query.owners.clone());
        let mut pages = self
            .ec2
            .describe_images()
            .set_filters(Some(sdk_filters(&filters)))
            .set_owners(owners)
            .include_deprecated(true)
            .into_paginator()
            .send();
        let mut images = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| port_error("EC2 DescribeImages", &error))?;
            images.extend(page.images().iter().filter_map(|image| read(image, now)));
        }
        Ok(images)
    }
}

/// Converts an AMI; `None` if it has no id, because it cannot be launched then.
fn read(image: &types::Image, now: Timestamp) -> Option<Image> {
    let deprecation = image.deprecation_time().and_then(|time| time.parse::<Timestamp>().ok());
    Some(Image {
        id: image.image_id()?.to_owned(),
        name: image.name().unwrap_or_default().to_owned(),
        created: image.creation_date().unwrap_or_default().to_owned(),
        deprecated: deprecation.is_some_and(|time| time <= now),
        architecture: image.architecture().map(|kind| kind.as_str().to_owned()).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_asked_for_again_after_an_hour() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let parameters = Parameters::default();
        parameters.insert("/p", "ami-1", at(0));
        assert_eq!(parameters.get("/p", at(3_599)).as_deref(), Some("ami-1"));
        assert_eq!(parameters.get("/p", at(3_600)), None);
        assert_eq!(parameters.get("/q", at(0)), None);
    }

    #[test]
    fn an_image_is_deprecated_from_its_time_on() {
        let image = |time: &str| types::Image::builder().image_id("ami-1").deprecation_time(time).build();
        let now: Timestamp = "2026-01-05T00:00:00Z".parse().unwrap();
        assert!(read(&image("2026-01-05T00:00:00.000Z"), now).unwrap().deprecated);
        assert!(!read(&image("2026-01-06T00:00:00.000Z"), now).unwrap().deprecated);
        assert!(read(&types::Image::builder().build(), now).is_none());
    }
}
