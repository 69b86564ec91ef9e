//! Pointers to what memory does not have, and what is asked of them that they do not do.

#[windlass::kernels]
mod wrong {
    use windlass::prelude::*;

    #[derive(Clone, Copy)]
    pub enum Kind {
        Near,
        Far,
    }

    #[derive(Clone, Copy)]
    pub struct Endless {
        pub next: Endless,
    }

    #[kernel]
    pub fn pointees(a: Ptr<bool>, b: Ptr<Kind>, c: Ptr, d: Ptr<(u32, u32)>, e: Ptr<Missing>, out: &mut [u32]) {
        out[0] = d.read().0;
        out[1] = b[1] as u32;
    }

    #[kernel]
    pub fn methods(p: Ptr<f32>, q: Ptr<u32>, r: *mut f32, out: &mut [u32]) {
        out[0] = p.read();
        out[1] = (p < p.add(1)) as u32;
        out[2] = (p == q) as u32;
        out[3] = p as u32;
        out[4] = p.address;
        let nothing = Ptr::null();
        let other = Ptr::<f32>::of(out);
        *p = 1_u32;
        p.write(q);
        p.offset(1);
        q[0].fetch_add(1, Relaxed);
        out[5] = p.add(-1).is_null() as u32;
    }
}

fn main() {}
