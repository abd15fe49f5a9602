//! The certificate authorities of a cluster as digests, in the tag and annotation
//! [`CERTIFICATE_AUTHORITY`](crate::labels::CERTIFICATE_AUTHORITY). During a rotation there are two, of which both are trusted:
//! <https://docs.aws.amazon.com/eks/latest/userguide/certificate-authority-rotation.html>.

/// What is between two digests: EC2 allows it in the value of a tag.
pub const SEPARATOR: char = '.';

/// Whether a client that trusts these authorities lacks one of the present ones. One that the cluster has no more does not matter.
#[must_use]
pub fn lacks_any(trusted: &str, present: &str) -> bool {
    present.split(SEPARATOR).any(|digest| trusted.split(SEPARATOR).all(|other| other != digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_successor_is_lacking_and_what_is_retired_is_not() {
        assert!(!lacks_any("1", "1") && !lacks_any("1.2", "2.1") && !lacks_any("1.2", "2"));
        assert!(lacks_any("1", "1.2") && lacks_any("1", "2") && lacks_any("", "1"));
    }
}
