//! What is read and written by an address.

use naga::proc::NameKey;
use naga::{AddressSpace, Function, Handle, StorageAccess};

use super::dialect::Dialect;
use super::program::Program;
use crate::error::{Outcome, refuse};
use crate::far::Far;

impl Program<'_> {
    /// The body of a function that reads or writes a number at an address.
    pub(super) fn far(&mut self, far: Far, of: Handle<Function>, result: &str) -> Outcome<String> {
        let Some(ty) = far.c_type(self.dialect) else {
            return refuse(format!("an address of an {}", far.name));
        };
        let argument = |at: u32| self.names.of(NameKey::FunctionArgument(of, at)).to_string();
        let (at, value) = (argument(0), if far.writes { argument(1) } else { String::new() });
        let pointer = self.dialect.pointer(AddressSpace::Storage { access: StorageAccess::all() });
        let (ty, number) = match self.dialect {
            // An argument may show the same memory as elements of which this number is a part.
            Dialect::OpenClC => {
                let name = format!("w_far_{}", far.name);
                self.types.define(&name, || format!("typedef {ty} {name} __attribute__((may_alias));\n"));
                (name, "(uintptr_t)")
            }
            Dialect::CudaC => (ty.to_string(), ""),
        };
        Ok(match far.writes {
            false => format!("    return ({result})*({pointer}const {ty} *){number}{at};\n"),
            true => format!("    *({pointer}{ty} *){number}{at} = ({ty}){value};\n"),
        })
    }
}
