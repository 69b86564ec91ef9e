//! The guide: how programs are written with Windlass, page by page. Each page's code is run as a test.
//!
//! New here? [A first program](first_program), then [order](ordering) and [failure]. A service wants
//! [cancellation and back-pressure](cancellation), [batching], [observability] and [production].

macro_rules! pages {
    ($($name:ident $file:literal,)*) => {$(
        #[doc = include_str!(concat!("../docs/", $file))]
        pub mod $name {}
    )*};
}

pages! {
    first_program "guide/first_program.md",
    ordering "guide/ordering.md",
    failure "guide/failure.md",
    cancellation "guide/cancellation.md",
    several_devices "guide/several_devices.md",
    memory "guide/memory.md",
    batching "guide/batching.md",
    deadlocks "guide/deadlocks.md",
    observability "guide/observability.md",
    production "guide/production.md",
    coming_from "guide/coming_from.md",
    kernels "kernels.md",
}
