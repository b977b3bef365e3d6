//! Settings of parts by their types: a part brings a type of its own, and the config keeps one value of it.

use std::any::{Any, TypeId, type_name};
use std::collections::BTreeMap;
use std::fmt;

/// A type that holds the settings of a part. Its default is what holds without any setting.
pub trait PartSettings: Any + Clone + fmt::Debug + Default + Send + Sync {}

impl<T: Any + Clone + fmt::Debug + Default + Send + Sync> PartSettings for T {}

/// One value for each type.
#[derive(Default)]
pub(crate) struct SettingsMap(BTreeMap<TypeId, Box<dyn Erased>>);

/// The settings of a part, without their type.
trait Erased: Any + fmt::Debug + Send + Sync {
    fn clone_erased(&self) -> Box<dyn Erased>;
}

impl<T: PartSettings> Erased for T {
    fn clone_erased(&self) -> Box<dyn Erased> {
        Box::new(self.clone())
    }
}

impl SettingsMap {
    pub(crate) fn get<T: PartSettings>(&self) -> Option<&T> {
        let erased: &dyn Any = &**self.0.get(&TypeId::of::<T>())?;
        erased.downcast_ref()
    }

    /// The value of this type: the default, if there was none.
    pub(crate) fn get_mut<T: PartSettings>(&mut self) -> &mut T {
        let erased = self.0.entry(TypeId::of::<T>()).or_insert_with(|| Box::new(T::default()));
        let erased: &mut dyn Any = &mut **erased;
        match erased.downcast_mut() {
            Some(settings) => settings,
            None => unreachable!("a {} is kept under its own type", type_name::<T>()),
        }
    }
}

impl Clone for SettingsMap {
    fn clone(&self) -> SettingsMap {
        // Not the box's own method: it would put a box into a box.
        SettingsMap(self.0.iter().map(|(id, erased)| (*id, (**erased).clone_erased())).collect())
    }
}

impl fmt::Debug for SettingsMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.values()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, Default, PartialEq)]
    struct Gadgets(Vec<u8>);

    #[test]
    fn a_copy_of_the_settings_has_a_life_of_its_own() {
        let mut settings = SettingsMap::default();
        assert_eq!(settings.get::<Gadgets>(), None);
        settings.get_mut::<Gadgets>().0.push(1);
        let mut copy = settings.clone();
        copy.get_mut::<Gadgets>().0.push(2);
        assert_eq!(settings.get::<Gadgets>(), Some(&Gadgets(vec![1])));
        assert_eq!(copy.get::<Gadgets>(), Some(&Gadgets(vec![1, 2])));
        assert_eq!(format!("{copy:?}"), "[Gadgets([1, 2])]");
    }
}
