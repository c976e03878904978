use onl_tensor::ElementType;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;

/// Device that a kernel runs on.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default,
)]
#[serde(rename_all = "snake_case")]
pub enum Device {
    /// The processor.
    #[default]
    Cpu,
}

/// Identity of a tunable kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct KernelKey {
    /// Library that provides the kernel; `onl` for builtin ones.
    pub library: Cow<'static, str>,
    /// Operator type, with its domain and a colon before it when the domain is not `ai.onnx`.
    pub kernel: Cow<'static, str>,
    /// Name of the implementation.
    pub implementation: Cow<'static, str>,
    /// Element type of the input that selects the kernel.
    #[serde(with = "element_type_name")]
    pub element_type: ElementType,
    /// Device.
    pub device: Device,
    /// Bumped when a body, a unit or a meaning changes.
    pub revision: u32,
}

/// Element types travel by name, never by number.
mod element_type_name {
    use super::ElementType;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(
        element_type: &ElementType,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(element_type.name())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<ElementType, D::Error> {
        let name = std::borrow::Cow::<str>::deserialize(deserializer)?;
        ElementType::from_name(&name)
            .ok_or_else(|| D::Error::custom(format!("unknown element type '{name}'")))
    }
}

impl KernelKey {
    /// The key of a builtin kernel on the processor.
    pub const fn builtin(
        kernel: &'static str,
        implementation: &'static str,
        element_type: ElementType,
        revision: u32,
    ) -> Self {
        KernelKey {
            library: Cow::Borrowed("onl"),
            kernel: Cow::Borrowed(kernel),
            implementation: Cow::Borrowed(implementation),
            element_type,
            device: Device::Cpu,
            revision,
        }
    }

    /// Whether a pattern of a command line selects this key: `Kernel`, `Kernel/type` or
    /// `library/Kernel/implementation/type`.
    pub fn matches(&self, pattern: &str) -> bool {
        let parts: Vec<&str> = pattern.split('/').collect();
        match parts.as_slice() {
            [kernel] => *kernel == self.kernel,
            [kernel, element_type] => {
                *kernel == self.kernel && *element_type == self.element_type.name()
            }
            [library, kernel, implementation, element_type] => {
                *library == self.library
                    && *kernel == self.kernel
                    && *implementation == self.implementation
                    && *element_type == self.element_type.name()
            }
            _ => false,
        }
    }
}

impl fmt::Display for KernelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}/{}/{}/{}",
            self.library, self.kernel, self.implementation, self.element_type
        )
    }
}
