//! The order of memory: what fences and atomics promise about the accesses around them.

/// How strong a promise is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Order {
    Relaxed,
    Acquire,
    Release,
    AcqRel,
    SeqCst,
}

/// Who sees it kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Group,
    Device,
}

impl Order {
    const ALL: [(&'static str, Order, &'static str); 5] = [
        ("Relaxed", Order::Relaxed, "relaxed"),
        ("Acquire", Order::Acquire, "acquire"),
        ("Release", Order::Release, "release"),
        ("AcqRel", Order::AcqRel, "acq_rel"),
        ("SeqCst", Order::SeqCst, "seq_cst"),
    ];

    /// The order that an argument names.
    pub(crate) fn of(argument: &syn::Expr) -> Option<Order> {
        let syn::Expr::Path(path) = argument else { return None };
        let name = path.path.segments.last()?.ident.to_string();
        Order::ALL.iter().find(|(known, ..)| *known == name).map(|(_, order, _)| *order)
    }

    pub(crate) fn name(self) -> &'static str {
        Order::ALL.iter().find(|(_, order, _)| *order == self).map_or("", |(name, ..)| name)
    }

    /// What has to come before an atomic of this order that is relaxed itself: what the item did before stays before it.
    pub(crate) fn before(self) -> Option<Order> {
        match self {
            Order::Relaxed | Order::Acquire => None,
            Order::Release | Order::AcqRel => Some(Order::Release),
            Order::SeqCst => Some(Order::SeqCst),
        }
    }

    /// What has to come behind it: what the item does then stays behind it.
    pub(crate) fn behind(self) -> Option<Order> {
        match self {
            Order::Relaxed | Order::Release => None,
            Order::Acquire | Order::AcqRel => Some(Order::Acquire),
            Order::SeqCst => Some(Order::SeqCst),
        }
    }
}

/// The function that stands for a fence in the device's text.
pub(crate) fn marker(order: Order, scope: Scope) -> String {
    let order = Order::ALL.iter().find(|(_, known, _)| *known == order).map_or("", |(.., name)| name);
    let scope = match scope {
        Scope::Group => "group",
        Scope::Device => "device",
    };
    format!("w_fence_{order}_{scope}")
}
