//! The private addresses of a subnet.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

/// The addresses of one subnet: each is used once before any is reused.
#[derive(Debug, Clone, Default)]
pub(crate) struct Addresses {
    next: u32,
    taken: BTreeSet<Ipv4Addr>,
}

impl Addresses {
    /// Takes the next free address of `usable` ones from `first`, if there is one.
    pub(crate) fn take(&mut self, first: u32, usable: u32) -> Option<Ipv4Addr> {
        let address_at = |offset: u32| Ipv4Addr::from(first + offset % usable);
        let offset = (self.next..self.next + usable).find(|offset| !self.taken.contains(&address_at(*offset)))?;
        self.next = (offset + 1) % usable;
        self.taken.insert(address_at(offset));
        Some(address_at(offset))
    }

    /// Releases an address.
    pub(crate) fn free(&mut self, address: &str) {
        if let Ok(address) = address.parse() {
            self.taken.remove(&address);
        }
    }
}
