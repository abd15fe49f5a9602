//! Serves the simulated account on its own port, for `aws --endpoint-url` or any SDK:
//!
//! ```sh
//! cargo run -p nodeless-fake-aws --example simulated_aws
//! ```

use jiff::Timestamp;
use nodeless_catalog::facts::Facts;
use nodeless_fake_aws::{Account, Ec2, RegionFacts, aws_router_with_clock};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let facts = RegionFacts::from_catalog(Facts::embedded()?);
    let now = Timestamp::now();
    let mut account = Account::for_cluster("000000000000", facts, "demo", "1.33", now);
    // There is no Kubernetes API at this address: `nodeless local` serves a cluster too.
    account.add_cluster("demo", "https://127.0.0.1:6443", "", "1.33", now);
    let router = aws_router_with_clock(Ec2::new(account, now), Timestamp::now);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}", listener.local_addr()?);
    axum::serve(listener, router).await?;
    Ok(())
}
