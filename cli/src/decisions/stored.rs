//! Reads decisions from the claims table.

use crate::error::CliError;
use crate::table::Item;
use nodeless_state::State;
use nodeless_storage::DynamoTable;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;

/// The longest name of a table that the Terraform module does not shorten (`local.name`), and the parts of a shortened one.
const MAX_NAME: usize = 43;
const SHORTENED: usize = 36;
const DIGEST: usize = 6;

/// The latest decisions of a cluster, the latest first. Uses the AWS configuration of the environment.
pub(crate) async fn read(cluster: &str, table: Option<&str>, limit: u32) -> Result<Vec<Item>, CliError> {
    let table = table.map_or_else(|| table_of(cluster), str::to_owned);
    let config = nodeless_aws::load_config().await;
    let claims = State::new(Arc::new(DynamoTable::new(&config, &table, cluster)));
    let found = claims.decisions(limit).await.map_err(|error| CliError::Table { table: table.clone(), error })?;
    found.iter().map(|decision| Item::of_decision(decision, &table)).collect()
}

/// The name that the Terraform module gives the table.
pub(crate) fn table_of(cluster: &str) -> String {
    let full = format!("nodeless-{cluster}");
    if full.len() <= MAX_NAME {
        return full;
    }
    let digest: String = Sha256::digest(&full).iter().map(|byte| format!("{byte:02x}")).collect();
    let start = |text: &str, length: usize| text.chars().take(length).collect::<String>();
    format!("{}-{}", start(&full, SHORTENED), start(&digest, DIGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_name_that_terraform_gives_it() {
        assert_eq!(table_of("prod"), "nodeless-prod");
        // The beginning of sha256 of the whole name.
        let long = "a".repeat(50);
        let short = table_of(&long);
        assert!(short.len() == MAX_NAME && short.starts_with("nodeless-aaa"), "{short}");
        assert_ne!(short, table_of(&"a".repeat(51)));
    }
}
