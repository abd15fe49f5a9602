//! Offerings that EC2 did not have a moment ago.

use crate::items::{read_text, text, ttl};
use crate::table::DynamoClaims;
use jiff::Timestamp;
use nodeless_model::CapacityType;
use nodeless_ports::claims::UnavailableOffering;
use nodeless_ports::{ErrorKind, PortError};
use std::collections::BTreeMap;

const PREFIX: &str = "unavailable#";

impl DynamoClaims {
    pub(crate) async fn write_unavailable(&self, offerings: &[UnavailableOffering]) -> Result<(), PortError> {
        // One call may not name an item twice; of two marks on one offering the later one counts.
        let mut latest = BTreeMap::new();
        for offering in offerings {
            let key =
                format!("{PREFIX}{}#{}#{}", offering.instance_type, offering.zone, offering.capacity_type.as_str());
            let known = latest.entry(key).or_insert(offering);
            if known.until < offering.until {
                *known = offering;
            }
        }
        let items = latest.into_iter().map(|(key, offering)| {
            let mut item = self.key(&key);
            item.insert("until".to_owned(), text(offering.until.to_string()));
            item.insert("reason".to_owned(), text(&offering.reason));
            item.insert("expires".to_owned(), ttl(offering.until));
            item
        });
        self.put_all(items).await
    }

    pub(crate) async fn read_unavailable(&self, now: Timestamp) -> Result<Vec<UnavailableOffering>, PortError> {
        const OPERATION: &str = "DynamoDB read unavailable offering";
        let mut offerings = Vec::new();
        for item in self.items(PREFIX, None).await? {
            let key = read_text(&item, "sk")?;
            let until = read_text(&item, "until")?;
            let until: Timestamp = until.parse().map_err(|_| {
                PortError::new(ErrorKind::Invalid, OPERATION, format!("{key}: `until` is no time: {until:?}"))
            })?;
            let parts: Vec<&str> = key.trim_start_matches(PREFIX).split('#').collect();
            let [instance_type, zone, capacity_type] = parts[..] else {
                return Err(PortError::new(ErrorKind::Invalid, OPERATION, format!("{key} does not name an offering")));
            };
            let capacity_type = CapacityType::from_label(capacity_type).ok_or_else(|| {
                PortError::new(ErrorKind::Invalid, OPERATION, format!("{key} names an unknown capacity type"))
            })?;
            // DynamoDB deletes expired items hours late, so what has expired is left out here.
            if until > now {
                offerings.push(UnavailableOffering {
                    instance_type: instance_type.to_owned(),
                    zone: zone.to_owned(),
                    capacity_type,
                    until,
                    reason: read_text(&item, "reason")?.to_owned(),
                });
            }
        }
        Ok(offerings)
    }
}
