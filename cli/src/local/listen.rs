//! The ports of a local world.

use crate::error::CliError;
use axum::Router;
use std::net::{Ipv4Addr, SocketAddr};
use tokio::net::TcpListener;

/// A port on loopback that was bound and is not served yet.
#[derive(Debug)]
pub(crate) struct Port {
    listener: TcpListener,
    address: SocketAddr,
}

impl Port {
    /// Binds a port on loopback; 0 means any that is free. `flag` is what a person would change.
    ///
    /// # Errors
    /// When the port is taken or not ours to take.
    pub(crate) async fn bind(flag: &'static str, port: u16) -> Result<Self, CliError> {
        let failed = |source| CliError::Listen { flag, port, source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// Its URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Answers requests until the process ends. Open watches never end by themselves, so there is nothing to wait for.
    pub(crate) fn serve(self, router: Router) {
        tokio::spawn(async move { axum::serve(self.listener, router).await });
    }
}
