//! Whose documents a list has.

/// The tenants of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TenantSelection {
    /// All of them.
    All,
    /// This one.
    One(String),
}

impl TenantSelection {
    /// Whether this tenant is selected.
    pub fn contains(&self, tenant: &str) -> bool {
        match self {
            TenantSelection::All => true,
            TenantSelection::One(one) => one == tenant,
        }
    }
}
