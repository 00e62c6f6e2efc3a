//! `VolumeAttachment` (longhorn.io/v1beta2): who wants a volume to be attached, and where.

use std::collections::BTreeMap;

use crate::foreign::{foreign_kind, foreign_part};

foreign_kind! {
    VolumeAttachment = "longhorn.io" "v1beta2" "volumeattachments" Namespaced {
        spec: VolumeAttachmentSpec,
    }
}

foreign_part! {
    VolumeAttachmentSpec {
        /// The name of the volume.
        volume: String,
        attachment_tickets: BTreeMap<String, Ticket>,
    }
    Ticket {
        id: String,
        /// One of [`types`].
        r#type: String,
        #[serde(rename = "nodeID")]
        node_id: String,
    }
}

pub mod types {
    /// A pod uses it.
    pub const CSI: &str = "csi-attacher";
    /// The pod that shares it with others.
    pub const SHARE: &str = "share-manager-controller";
    /// Somebody has attached it by hand.
    pub const BY_HAND: &str = "longhorn-api";
    /// The same, in Longhorn's user interface.
    pub const BY_HAND_ON_SCREEN: &str = "longhorn-ui";
}
