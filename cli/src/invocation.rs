//! The name by which the command was called.

use std::ffi::OsStr;
use std::path::Path;

/// The name in usage lines, if it is another than that of the executable: kubectl runs `kubectl nodeless` as `kubectl-nodeless`
/// (<https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/>).
pub(crate) fn plugin_name(executable: Option<&OsStr>) -> Option<&'static str> {
    let stem = Path::new(executable?).file_stem()?;
    (stem == "kubectl-nodeless").then_some("kubectl nodeless")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_of_kubectl_is_called_by_its_name_in_kubectl() {
        let name = |path: &str| plugin_name(Some(OsStr::new(path)));
        assert_eq!(name("/home/u/.krew/bin/kubectl-nodeless"), Some("kubectl nodeless"));
        assert_eq!(name("kubectl-nodeless.exe"), Some("kubectl nodeless"));
        assert_eq!((name("/usr/bin/nodeless"), name(""), plugin_name(None)), (None, None, None));
    }
}
