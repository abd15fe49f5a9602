//! Ports: those of a local simulated cluster and of the view on the loopback interface, and that of metrics.

use super::guard::guarded;
use crate::error::CliError;
use axum::Router;
use std::net::{Ipv4Addr, SocketAddr};
use tokio::net::TcpListener;

/// A port that is bound and not served yet.
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
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Self::listen(address).await.map_err(|source| CliError::Listen { flag, port, source })
    }

    /// Binds an address of this machine, or all of them if it is unspecified; port 0 for any free port.
    ///
    /// # Errors
    /// When the address cannot be bound.
    #[cfg(feature = "kubernetes")]
    pub(crate) async fn bind_at(address: SocketAddr) -> Result<Self, CliError> {
        Self::listen(address).await.map_err(|source| CliError::ListenAt { address, source })
    }

    async fn listen(address: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// The URL of the port.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Serves requests until the process ends, except for those of pages of other sites. It does not wait for open watches, because they
    /// never end.
    pub(crate) fn serve(self, router: Router) {
        let router = guarded(router, self.address);
        tokio::spawn(async move { axum::serve(self.listener, router).await });
    }
}
