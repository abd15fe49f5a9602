use super::*;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

const LONG: Duration = Duration::from_secs(600);
/// No time passes between attempts.
const WITHOUT_DELAY: Timeouts = Timeouts { access_within: LONG, retry: Duration::ZERO, end_within: LONG };
/// One attempt only.
const ONE_ATTEMPT: Timeouts = Timeouts { access_within: Duration::ZERO, ..WITHOUT_DELAY };

fn refused(kind: ErrorKind, message: &str) -> PortError {
    PortError::new(kind, "test", message)
}

/// EKS and the API server, with the calls that they got. What is scripted is answered first, then every call succeeds.
#[derive(Default)]
struct Cluster {
    calls: RefCell<Vec<&'static str>>,
    begun: RefCell<VecDeque<PortError>>,
    worked: RefCell<VecDeque<InstallError>>,
    ended: RefCell<VecDeque<PortError>>,
    /// Whether the policy is associated.
    associated: Cell<bool>,
}

impl Cluster {
    fn note(&self, call: &'static str) {
        self.calls.borrow_mut().push(call);
    }

    /// Runs an invocation. The work is refused where the policy is not associated.
    async fn invoke(&self, timeouts: Timeouts) -> Result<u32, AccessError> {
        let work = async || {
            self.note("work");
            match self.worked.borrow_mut().pop_front() {
                Some(error) => Err(error),
                None if !self.associated.get() => Err(refused(ErrorKind::Denied, "not cluster-admin").into()),
                None => Ok(7),
            }
        };
        as_cluster_admin("one", self, timeouts, LONG, work).await
    }
}

impl Rights for Cluster {
    async fn begin(&self) -> Result<(), PortError> {
        self.note("begin");
        if let Some(error) = self.begun.borrow_mut().pop_front() {
            return Err(error);
        }
        self.associated.set(true);
        Ok(())
    }

    async fn end(&self) -> Result<(), PortError> {
        self.note("end");
        if let Some(error) = self.ended.borrow_mut().pop_front() {
            return Err(error);
        }
        self.associated.set(false);
        Ok(())
    }

    fn command_to_end(&self) -> String {
        "aws eks disassociate-access-policy".to_owned()
    }
}

#[tokio::test]
async fn rights_begin_before_the_work_and_end_after_it() {
    let cluster = Cluster::default();
    assert_eq!(cluster.invoke(WITHOUT_DELAY).await, Ok(7));
    assert_eq!(*cluster.calls.borrow(), ["begin", "work", "end"]);
    assert!(!cluster.associated.get());
}

#[tokio::test]
async fn what_eks_and_iam_have_not_applied_yet_is_waited_for() {
    let cluster = Cluster::default();
    *cluster.begun.borrow_mut() =
        [ErrorKind::Denied, ErrorKind::NotFound, ErrorKind::Unavailable].map(|kind| refused(kind, "not yet")).into();
    *cluster.worked.borrow_mut() = [refused(ErrorKind::Denied, "forbidden").into()].into();
    assert_eq!(cluster.invoke(WITHOUT_DELAY).await, Ok(7));
    assert_eq!(*cluster.calls.borrow(), ["begin", "begin", "begin", "begin", "work", "begin", "work", "end"]);
}

#[tokio::test]
async fn without_rights_nothing_is_done_and_the_error_is_that_of_eks() {
    let cluster = Cluster::default();
    let error = refused(ErrorKind::NotFound, "the role has no access entry");
    cluster.begun.borrow_mut().push_back(error.clone());
    assert_eq!(cluster.invoke(ONE_ATTEMPT).await, Err(AccessError::Failed(WorkError::NoAccess(error))));
    assert_eq!(*cluster.calls.borrow(), ["begin", "end"], "the answer may have been lost, so the rights are ended");
}

#[tokio::test]
async fn a_call_that_cannot_succeed_is_not_repeated() {
    let cluster = Cluster::default();
    cluster.begun.borrow_mut().push_back(refused(ErrorKind::Invalid, "the cluster has no access entries"));
    assert!(matches!(cluster.invoke(WITHOUT_DELAY).await, Err(AccessError::Failed(WorkError::NoAccess(_)))));
    assert_eq!(*cluster.calls.borrow(), ["begin", "end"]);
}

#[tokio::test]
async fn rights_end_also_when_the_work_failed() {
    let cluster = Cluster::default();
    let error = InstallError::Invalid("no".to_owned());
    cluster.worked.borrow_mut().push_back(error.clone());
    assert_eq!(cluster.invoke(WITHOUT_DELAY).await, Err(AccessError::Failed(WorkError::Install(error))));
    assert_eq!(*cluster.calls.borrow(), ["begin", "work", "end"]);
    assert!(!cluster.associated.get());
}

#[tokio::test]
async fn rights_end_also_when_the_work_never_ends() {
    let cluster = Cluster::default();
    let work = async || std::future::pending::<Result<u32, InstallError>>().await;
    let done = as_cluster_admin("one", &cluster, WITHOUT_DELAY, Duration::ZERO, work).await;
    assert_eq!(done, Err(AccessError::Failed(WorkError::Timeout)));
    assert_eq!(*cluster.calls.borrow(), ["begin", "end"]);
}

#[tokio::test]
async fn ending_the_rights_is_tried_again() {
    let cluster = Cluster::default();
    *cluster.ended.borrow_mut() = [1, 2].map(|_| refused(ErrorKind::Unavailable, "busy")).into();
    assert_eq!(cluster.invoke(WITHOUT_DELAY).await, Ok(7));
    assert_eq!(*cluster.calls.borrow(), ["begin", "work", "end", "end", "end"]);
}

#[tokio::test]
async fn rights_that_could_not_be_ended_fail_the_invocation_with_the_command_to_run() {
    let cluster = Cluster::default();
    *cluster.ended.borrow_mut() = [1, 2, 3].map(|_| refused(ErrorKind::Unavailable, "EKS is down")).into();
    let message = cluster.invoke(WITHOUT_DELAY).await.unwrap_err().to_string();
    for part in ["may still be cluster-admin", "EKS is down", "run `aws eks disassociate-access-policy`"] {
        assert!(message.contains(part), "{message}");
    }
    cluster.worked.borrow_mut().push_back(InstallError::Invalid("the work failed".to_owned()));
    *cluster.ended.borrow_mut() = [1, 2, 3].map(|_| refused(ErrorKind::Unavailable, "EKS is down")).into();
    let both = cluster.invoke(WITHOUT_DELAY).await.unwrap_err().to_string();
    assert!(both.starts_with("the work failed; and the installer may still be cluster-admin"), "{both}");
}

#[tokio::test]
async fn eks_that_does_not_answer_is_given_up_when_the_rights_end() {
    struct Silent;
    impl Rights for Silent {
        async fn begin(&self) -> Result<(), PortError> {
            Ok(())
        }
        async fn end(&self) -> Result<(), PortError> {
            std::future::pending().await
        }
        fn command_to_end(&self) -> String {
            String::new()
        }
    }
    let timeouts = Timeouts { end_within: Duration::ZERO, ..WITHOUT_DELAY };
    let done = as_cluster_admin("one", &Silent, timeouts, LONG, async || Ok(7)).await;
    assert!(done.unwrap_err().to_string().contains("did not answer within"));
}

#[tokio::test]
async fn the_rights_of_an_invocation_that_died_are_ended_by_the_next() {
    let cluster = Cluster::default();
    cluster.associated.set(true);
    assert_eq!(cluster.invoke(WITHOUT_DELAY).await, Ok(7));
    assert!(!cluster.associated.get());
}

#[tokio::test]
async fn rights_that_another_invocation_ended_are_begun_again() {
    let cluster = Cluster::default();
    let interrupted = Cell::new(false);
    let work = async || {
        if !interrupted.replace(true) {
            cluster.associated.set(false);
        }
        if cluster.associated.get() { Ok(7) } else { Err(refused(ErrorKind::Denied, "not cluster-admin").into()) }
    };
    assert_eq!(as_cluster_admin("one", &cluster, WITHOUT_DELAY, LONG, work).await, Ok(7));
}

#[test]
fn the_time_that_is_kept_is_enough_to_end_the_rights() {
    assert!(TIMEOUTS.end_within * ENDED_AFTER + TIMEOUTS.retry * (ENDED_AFTER - 1) <= KEPT_TO_END);
}
