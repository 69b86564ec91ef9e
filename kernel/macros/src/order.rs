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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    Item,
    Group,
    Device,
}

impl Scope {
    /// A sub-group is taken for its group, which is more than was asked. While a kernel runs nobody but its device reaches
    /// what it reaches, so the system is the device.
    fn of(name: &str) -> Option<Scope> {
        Some(match name {
            "item" => Scope::Item,
            "sub_group" | "group" => Scope::Group,
            "device" | "system" => Scope::Device,
            _ => return None,
        })
    }
}

/// What an argument such as `Acquire` or `Acquire.group()` asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    pub(crate) order: Order,
    /// None where none is named.
    pub(crate) scope: Option<Scope>,
}

impl Promise {
    pub(crate) fn of(argument: &syn::Expr) -> Option<Promise> {
        let scoped = match argument {
            syn::Expr::MethodCall(call) if call.args.is_empty() && call.turbofish.is_none() => {
                (&*call.receiver, Some(Scope::of(&call.method.to_string())?))
            }
            other => (other, None),
        };
        Some(Promise { order: Order::of(scoped.0)?, scope: scoped.1 })
    }

    /// One that keeps both.
    pub(crate) fn and(self, other: Promise) -> Promise {
        // A scope that is not named is the widest.
        let scope = self.scope.zip(other.scope).map(|(a, b)| a.max(b));
        Promise { order: self.order.and(other.order), scope }
    }
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
    fn of(argument: &syn::Expr) -> Option<Order> {
        let syn::Expr::Path(path) = argument else { return None };
        let name = path.path.segments.last()?.ident.to_string();
        Order::ALL.iter().find(|(known, ..)| *known == name).map(|(_, order, _)| *order)
    }

    pub(crate) fn name(self) -> &'static str {
        Order::ALL.iter().find(|(_, order, _)| *order == self).map_or("", |(name, ..)| name)
    }

    /// The weakest order that is as strong as both.
    fn and(self, other: Order) -> Order {
        match (self, other) {
            (Order::Acquire, Order::Release) | (Order::Release, Order::Acquire) => Order::AcqRel,
            (a, b) => a.max(b),
        }
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
        Scope::Item => unreachable!("an order for the item alone needs no fence"),
        Scope::Group => "group",
        Scope::Device => "device",
    };
    format!("w_fence_{order}_{scope}")
}
