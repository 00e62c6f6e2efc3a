//! The kinds of VM Operator (group vmoperator.vmware.com). See <https://github.com/vmware-tanzu/vm-operator>.

pub mod virtual_machine;
pub mod virtual_machine_class;
pub mod virtual_machine_image;
