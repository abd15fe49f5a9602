//! A connection to an API server: its address, the credentials, and the time limits of calls.

use crate::error::{chain, from_kube};
use crate::kubeconfig::{self, KubeconfigError};
use futures::AsyncBufRead;
use futures::future::BoxFuture;
use http::Request;
use http::header::{AUTHORIZATION, HeaderValue};
use kube::config::{Cluster, Context, KubeConfigOptions, Kubeconfig, NamedCluster, NamedContext};
use nodeless_cluster::CallError;
use nodeless_ports::{ErrorKind, PortError};
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long the API server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long one call may take. A function runs for at most a minute and makes several calls; a page of 500 pods takes much less
/// than a second.
const CALL_TIMEOUT: Duration = Duration::from_secs(15);
/// How often a read is tried when the API server is busy or cannot be reached.
const READ_ATTEMPTS: u32 = 3;
/// The wait before the second attempt; doubled with each further one.
const FIRST_BACKOFF: Duration = Duration::from_millis(200);

/// Returns the token to send. Its argument is the token that the API server rejected, if any.
type TokenSource = Arc<dyn Fn(Option<String>) -> BoxFuture<'static, Result<String, PortError>> + Send + Sync>;

/// The address of an API server and the authority of its certificate, from DescribeCluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiServer {
    /// The URL. `http://` works too, for emulators.
    pub url: String,
    /// The certificate authority: PEM in base64, as in a kubeconfig. `None` means the authorities that the system trusts.
    pub certificate_authority: Option<String>,
}

/// A connection to one API server. Clones share it.
#[derive(Clone)]
pub struct Connection {
    client: kube::Client,
    tokens: Option<TokenSource>,
    /// Whether the server did not answer, or did not authenticate the caller, since [`Self::take_doubt`].
    doubt: Arc<AtomicBool>,
    /// The context of the kubeconfig.
    context: Option<String>,
    /// Whether the API server handles writes without storing them.
    pub(crate) dry_run: bool,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("with_tokens", &self.tokens.is_some()).finish_non_exhaustive()
    }
}

impl Connection {
    /// Connects to an API server with bearer tokens. `token` is called before every call and should cache the token while it is
    /// valid. When the API server rejects a token, `token` is called once more with the rejected one, and the call is repeated.
    /// This function sends nothing.
    ///
    /// # Errors
    /// When the URL or the certificates cannot be used.
    pub async fn with_tokens<F, Fut>(server: &ApiServer, token: F) -> Result<Self, PortError>
    where
        F: Fn(Option<String>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String, PortError>> + Send + 'static,
    {
        let name = "cluster".to_owned();
        let kubeconfig = Kubeconfig {
            clusters: vec![NamedCluster {
                name: name.clone(),
                cluster: Some(Cluster {
                    server: Some(server.url.clone()),
                    certificate_authority_data: server.certificate_authority.clone(),
                    ..Cluster::default()
                }),
                ..NamedCluster::default()
            }],
            contexts: vec![NamedContext {
                name: name.clone(),
                context: Some(Context { cluster: name.clone(), ..Context::default() }),
                ..NamedContext::default()
            }],
            current_context: Some(name),
            ..Kubeconfig::default()
        };
        let invalid = |message| PortError::new(ErrorKind::Invalid, "Kubernetes connect", message);
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        let config = config.map_err(|error| {
            invalid(format!("the API server's address or certificates cannot be used: {}", chain(&error)))
        })?;
        let client =
            client(config).map_err(|error| invalid(format!("the client cannot be set up: {}", chain(&error))))?;
        let tokens: TokenSource = Arc::new(move |refused| Box::pin(token(refused)));
        Ok(Self { client, tokens: Some(tokens), doubt: Arc::default(), context: None, dry_run: false })
    }

    /// Connects with a kubeconfig: the file at `path`, else those in `KUBECONFIG`, else `~/.kube/config`; with
    /// `context`, else its current context.
    ///
    /// # Errors
    /// When there is no such file or context, it cannot be used, or the command that it runs to get a token fails.
    pub async fn with_kubeconfig(path: Option<&Path>, context: Option<&str>) -> Result<Self, KubeconfigError> {
        let kubeconfig = kubeconfig::read(path)?;
        let chosen = context.map(str::to_owned).or_else(|| kubeconfig.current_context.clone());
        let known = kubeconfig.contexts.iter().map(|named| named.name.clone()).collect();
        let command = kubeconfig::token_command(&kubeconfig, context);
        let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
        let config = config.map_err(|error| kubeconfig::not_loaded(&error, known))?;
        let client = client(config).map_err(|error| kubeconfig::no_client(&error, command.as_deref()))?;
        Ok(Self { client, tokens: None, doubt: Arc::default(), context: chosen, dry_run: false })
    }

    /// The context of the kubeconfig with which it was made.
    #[must_use]
    pub fn context(&self) -> Option<&str> {
        self.context.as_deref()
    }

    /// The same connection, over which the API server answers writes as if it had stored them, and stores nothing.
    #[must_use]
    pub fn with_dry_run(self) -> Self {
        Self { dry_run: true, ..self }
    }

    /// Whether a call has failed since this was last asked because the API server could not be reached, its certificate was not accepted,
    /// or it did not authenticate the caller: then the cluster may have another address.
    #[must_use]
    pub fn take_doubt(&self) -> bool {
        self.doubt.swap(false, Ordering::Relaxed)
    }

    /// The result of a call, whose failure may put the address of the API server in doubt.
    fn noted<T>(&self, result: Result<T, CallError>) -> Result<T, CallError> {
        if result.as_ref().is_err_and(CallError::puts_address_in_doubt) {
            self.doubt.store(true, Ordering::Relaxed);
        }
        result
    }

    /// Makes a call and returns the response body.
    pub(crate) async fn call(&self, operation: &str, request: Request<Vec<u8>>) -> Result<String, CallError> {
        let sent = self.authorized(request, None).await?;
        let done = match self.text(operation, sent.request.clone()).await {
            Err(failed) if failed.is(401) => match Box::pin(self.with_another_token(sent)).await? {
                // On the heap, because a second call is rare and a future of two calls is large.
                Some(request) => Box::pin(self.text(operation, request)).await,
                None => Err(failed),
            },
            done => done,
        };
        self.noted(done)
    }

    async fn text(&self, operation: &str, request: Request<Vec<u8>>) -> Result<String, CallError> {
        let answer = tokio::time::timeout(CALL_TIMEOUT, self.client.request_text(request)).await;
        answer.map_err(|_| too_slow(operation))?.map_err(|error| from_kube(operation, error))
    }

    /// Makes a call that changes nothing. Repeats it if the API server is busy or cannot be reached.
    pub(crate) async fn read(&self, operation: &str, request: Request<Vec<u8>>) -> Result<String, CallError> {
        let mut backoff = FIRST_BACKOFF;
        for _ in 1..READ_ATTEMPTS {
            match self.call(operation, request.clone()).await {
                // With `NODELESS_LOG=debug`, the client logs each attempt.
                Err(failed) if is_passing(&failed) => {}
                done => return done,
            }
            tokio::time::sleep(backoff).await;
            backoff *= 2;
        }
        self.call(operation, request).await
    }

    /// Makes a call whose response is read line by line as it arrives.
    pub(crate) async fn stream(
        &self,
        operation: &str,
        mut request: Request<Vec<u8>>,
    ) -> Result<impl AsyncBufRead + Send + Unpin + use<>, CallError> {
        request.headers_mut().insert(http::header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let sent = self.authorized(request, None).await?;
        let done = match self.lines(operation, sent.request.clone()).await {
            Err(failed) if failed.is(401) => match Box::pin(self.with_another_token(sent)).await? {
                Some(request) => Box::pin(self.lines(operation, request)).await,
                None => Err(failed),
            },
            done => done,
        };
        self.noted(done)
    }

    async fn lines(
        &self,
        operation: &str,
        request: Request<Vec<u8>>,
    ) -> Result<Pin<Box<dyn AsyncBufRead + Send>>, CallError> {
        let answer = tokio::time::timeout(CALL_TIMEOUT, self.client.request_stream(request)).await;
        let stream = answer.map_err(|_| too_slow(operation))?.map_err(|error| from_kube(operation, error))?;
        Ok(Box::pin(stream))
    }

    /// The request with a token. `refused` is a token that the API server has rejected.
    async fn authorized(
        &self,
        mut request: Request<Vec<u8>>,
        refused: Option<String>,
    ) -> Result<Authorized, CallError> {
        let Some(tokens) = &self.tokens else { return Ok(Authorized { request, token: None }) };
        let token = tokens(refused).await.map_err(|error| CallError { error, answer: None })?;
        let mut header = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| {
            CallError::other(
                ErrorKind::Invalid,
                "EKS token",
                "the token has characters that are not allowed in a header",
            )
        })?;
        header.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, header);
        Ok(Authorized { request, token: Some(token) })
    }

    /// A request whose token was rejected, with another token if there is one. The rejected request had no effect.
    async fn with_another_token(&self, sent: Authorized) -> Result<Option<Request<Vec<u8>>>, CallError> {
        let next = self.authorized(sent.request, sent.token.clone()).await?;
        Ok((next.token != sent.token).then_some(next.request))
    }
}

/// A client with the settings of every connection.
fn client(mut config: kube::Config) -> Result<kube::Client, kube::Error> {
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    // Without this, the client would retry an eviction that a PodDisruptionBudget rejects, because that is a 429 too.
    config.default_retry = false;
    kube::Client::try_from(config)
}

/// A request and its token.
struct Authorized {
    request: Request<Vec<u8>>,
    token: Option<String>,
}

/// Whether a repeated read may succeed. A read with an expired continue token or resourceVersion (410) never does.
fn is_passing(failed: &CallError) -> bool {
    // An API server that has just started has not read the roles yet, and forbids everything for a fraction of a second.
    let busy = matches!(failed.error.kind, ErrorKind::Unavailable | ErrorKind::Throttled) || failed.is_missing_right();
    busy && !failed.is(410)
}

fn too_slow(operation: &str) -> CallError {
    let message = format!("no answer within {} s; the API server is overloaded or unreachable", CALL_TIMEOUT.as_secs());
    CallError::other(ErrorKind::Unavailable, operation, message)
}
