//! Who has no native objects lends none.

use windlass::prelude::*;

struct Mine;

fn lends(context: &Context) {
    let _ = context.native::<Mine>();
}

fn main() {}
