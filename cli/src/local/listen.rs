//! Ports on the loopback interface: those of a local simulated cluster, and of the view.

use super::guard::guarded;
use crate::error::CliError;
use axum::Router;
use std::net::{Ipv4Addr, SocketAddr};
use tokio::net::TcpListener;

/// A port on the loopback interface that is bound and not served yet.
#[derive(Debug)]
pub(crate) struct Port {
    listener: TcpListener,
    address: SocketAddr,
}

impl Port {
    /// Binds a port on the loopback interface; 0 for any free port. The error names `flag`.
    ///
    /// # Errors
    /// When the port cannot be bound.
    pub(crate) async fn bind(flag: &'static str, port: u16) -> Result<Self, CliError> {
        let failed = |source| CliError::Listen { flag, port, source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// The URL of the port.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Serves requests until the process ends, except for those of pages of other sites. It does not wait for open watches, because they
    /// never end.
    pub(crate) fn serve(self, router: Router) {
        let router = guarded(router, &self.url());
        tokio::spawn(async move { axum::serve(self.listener, router).await });
    }
}
