//! Driver functions that the runtime calls, from the `libcuda.so.1` that the loader finds.

use std::ffi::{c_char, c_void};
use std::sync::OnceLock;

use libloading::Library;

use crate::handles::{DevicePointer, Handle};
use crate::status::{Result, Status};

/// A host function that the driver calls in stream order.
pub type HostFunction = Option<unsafe extern "C" fn(*mut c_void)>;

macro_rules! driver_functions {
    ($($name:ident($($kind:ty),*);)*) => {
        /// The driver functions.
        #[allow(non_snake_case)]
        pub struct Driver {
            $(#[doc = concat!("`", stringify!($name), "`.")] pub $name: unsafe extern "C" fn($($kind),*) -> u32,)*
            /// Keeps the library loaded.
            _library: Library,
        }

        impl Driver {
            fn load() -> Result<Self, libloading::Error> {
                // SAFETY: the driver's initialisers are safe to run in any program.
                let library = unsafe { Library::new("libcuda.so.1") }?;
                Ok(Self {
                    // SAFETY: the types are those of the CUDA driver API.
                    $($name: *unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) }?,)*
                    _library: library,
                })
            }
        }
    };
}

driver_functions! {
    cuInit(u32);
    cuDriverGetVersion(*mut i32);
    cuGetErrorString(u32, *mut *const c_char);
    cuDeviceGetCount(*mut i32);
    cuDeviceGetName(*mut c_char, i32, i32);
    cuDeviceGetUuid_v2(*mut [u8; 16], i32);
    cuDeviceTotalMem_v2(*mut usize, i32);
    cuDeviceGetAttribute(*mut i32, u32, i32);
    cuDeviceCanAccessPeer(*mut i32, i32, i32);
    cuDeviceGetPCIBusId(*mut c_char, i32, i32);
    cuDevicePrimaryCtxRetain(*mut Handle, i32);
    cuDevicePrimaryCtxReset_v2(i32);
    cuCtxGetCurrent(*mut Handle);
    cuCtxSetCurrent(Handle);
    cuCtxSynchronize();
    cuCtxGetStreamPriorityRange(*mut i32, *mut i32);
    cuCtxGetLimit(*mut usize, u32);
    cuCtxSetLimit(u32, usize);
    cuModuleLoadData(*mut Handle, *const c_void);
    cuModuleGetFunction(*mut Handle, Handle, *const c_char);
    cuModuleGetGlobal_v2(*mut DevicePointer, *mut usize, Handle, *const c_char);
    cuFuncGetAttribute(*mut i32, u32, Handle);
    cuFuncSetAttribute(Handle, u32, i32);
    cuLaunchKernel(Handle, u32, u32, u32, u32, u32, u32, u32, Handle, *mut *mut c_void, *mut *mut c_void);
    cuLaunchKernelEx(*const c_void, Handle, *mut *mut c_void, *mut *mut c_void);
    cuLaunchHostFunc(Handle, HostFunction, *mut c_void);
    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(*mut i32, Handle, i32, usize, u32);
    cuMemAlloc_v2(*mut DevicePointer, usize);
    cuMemAllocPitch_v2(*mut DevicePointer, *mut usize, usize, usize, u32);
    cuMemAllocAsync(*mut DevicePointer, usize, Handle);
    cuMemFree_v2(DevicePointer);
    cuMemFreeAsync(DevicePointer, Handle);
    cuMemGetInfo_v2(*mut usize, *mut usize);
    cuMemHostAlloc(*mut *mut c_void, usize, u32);
    cuMemFreeHost(*mut c_void);
    cuMemHostRegister_v2(*mut c_void, usize, u32);
    cuMemHostUnregister(*mut c_void);
    cuPointerGetAttribute(*mut c_void, u32, DevicePointer);
    cuMemcpy(DevicePointer, DevicePointer, usize);
    cuMemcpyAsync(DevicePointer, DevicePointer, usize, Handle);
    cuMemcpyHtoD_v2(DevicePointer, *const c_void, usize);
    cuMemcpyHtoDAsync_v2(DevicePointer, *const c_void, usize, Handle);
    cuMemcpyDtoH_v2(*mut c_void, DevicePointer, usize);
    cuMemcpyDtoHAsync_v2(*mut c_void, DevicePointer, usize, Handle);
    cuMemcpyDtoD_v2(DevicePointer, DevicePointer, usize);
    cuMemcpyDtoDAsync_v2(DevicePointer, DevicePointer, usize, Handle);
    cuMemcpy2D_v2(*const c_void);
    cuMemcpy2DAsync_v2(*const c_void, Handle);
    cuMemcpy3D_v2(*const c_void);
    cuMemcpy3DAsync_v2(*const c_void, Handle);
    cuMemcpyHtoA_v2(Handle, usize, *const c_void, usize);
    cuMemcpyAtoH_v2(*mut c_void, Handle, usize, usize);
    cuMemcpyDtoA_v2(Handle, usize, DevicePointer, usize);
    cuMemcpyAtoD_v2(DevicePointer, Handle, usize, usize);
    cuArray3DCreate_v2(*mut Handle, *const c_void);
    cuArray3DGetDescriptor_v2(*mut c_void, Handle);
    cuArrayDestroy(Handle);
    cuTexObjectCreate(*mut u64, *const c_void, *const c_void, *const c_void);
    cuTexObjectDestroy(u64);
    cuTexObjectGetResourceDesc(*mut c_void, u64);
    cuTexObjectGetTextureDesc(*mut c_void, u64);
    cuSurfObjectCreate(*mut u64, *const c_void);
    cuSurfObjectDestroy(u64);
    cuSurfObjectGetResourceDesc(*mut c_void, u64);
    cuMemsetD8_v2(DevicePointer, u8, usize);
    cuMemsetD8Async(DevicePointer, u8, usize, Handle);
    cuMemsetD2D8_v2(DevicePointer, usize, u8, usize, usize);
    cuMemsetD2D8Async(DevicePointer, usize, u8, usize, usize, Handle);
    cuStreamCreate(*mut Handle, u32);
    cuStreamCreateWithPriority(*mut Handle, u32, i32);
    cuStreamDestroy_v2(Handle);
    cuStreamSynchronize(Handle);
    cuStreamQuery(Handle);
    cuStreamWaitEvent(Handle, Handle, u32);
    cuStreamGetPriority(Handle, *mut i32);
    cuStreamGetFlags(Handle, *mut u32);
    cuStreamBeginCapture_v2(Handle, u32);
    cuStreamEndCapture(Handle, *mut Handle);
    cuStreamIsCapturing(Handle, *mut u32);
    cuGraphGetNodes(Handle, *mut Handle, *mut usize);
    cuGraphInstantiateWithFlags(*mut Handle, Handle, u64);
    cuGraphLaunch(Handle, Handle);
    cuGraphExecDestroy(Handle);
    cuGraphDestroy(Handle);
    cuLaunchCooperativeKernel(Handle, u32, u32, u32, u32, u32, u32, u32, Handle, *mut *mut c_void);
    cuOccupancyAvailableDynamicSMemPerBlock(*mut usize, Handle, i32, i32);
    cuOccupancyMaxActiveClusters(*mut i32, Handle, *const c_void);
    cuOccupancyMaxPotentialClusterSize(*mut i32, Handle, *const c_void);
    cuMemAllocManaged(*mut DevicePointer, usize, u32);
    cuMemPrefetchAsync(DevicePointer, usize, i32, Handle);
    cuMemPrefetchAsync_v2(DevicePointer, usize, u64, u32, Handle);
    cuMemAdvise(DevicePointer, usize, u32, i32);
    cuMemAdvise_v2(DevicePointer, usize, u32, u64);
    cuMemRangeGetAttribute(*mut c_void, usize, u32, DevicePointer, usize);
    cuMemRangeGetAttributes(*mut *mut c_void, *mut usize, *mut u32, usize, DevicePointer, usize);
    cuStreamAttachMemAsync(Handle, DevicePointer, usize, u32);
    cuMemHostGetDevicePointer_v2(*mut DevicePointer, *mut c_void, u32);
    cuMemHostGetFlags(*mut u32, *mut c_void);
    cuDeviceGetDefaultMemPool(*mut Handle, i32);
    cuDeviceGetMemPool(*mut Handle, i32);
    cuDeviceSetMemPool(i32, Handle);
    cuMemPoolCreate(*mut Handle, *const c_void);
    cuMemPoolDestroy(Handle);
    cuMemPoolTrimTo(Handle, usize);
    cuMemPoolSetAttribute(Handle, u32, *mut c_void);
    cuMemPoolGetAttribute(Handle, u32, *mut c_void);
    cuMemPoolSetAccess(Handle, *const c_void, usize);
    cuMemPoolGetAccess(*mut u32, Handle, *const c_void);
    cuMemAllocFromPoolAsync(*mut DevicePointer, usize, Handle, Handle);
    cuGraphCreate(*mut Handle, u32);
    cuGraphClone(*mut Handle, Handle);
    cuGraphAddEmptyNode(*mut Handle, Handle, *const Handle, usize);
    cuGraphAddKernelNode(*mut Handle, Handle, *const Handle, usize, *const c_void);
    cuGraphAddMemcpyNode(*mut Handle, Handle, *const Handle, usize, *const c_void, Handle);
    cuGraphAddMemsetNode(*mut Handle, Handle, *const Handle, usize, *const c_void, Handle);
    cuGraphAddHostNode(*mut Handle, Handle, *const Handle, usize, *const c_void);
    cuGraphAddChildGraphNode(*mut Handle, Handle, *const Handle, usize, Handle);
    cuGraphKernelNodeSetParams(Handle, *const c_void);
    cuGraphExecKernelNodeSetParams(Handle, Handle, *const c_void);
    cuGraphExecMemsetNodeSetParams(Handle, Handle, *const c_void, Handle);
    cuGraphNodeGetType(Handle, *mut u32);
    cuGraphUpload(Handle, Handle);
    cuStreamGetId(Handle, *mut u64);
    cuStreamGetDevice(Handle, *mut i32);
    cuThreadExchangeStreamCaptureMode(*mut u32);
    cuGetProcAddress_v2(*const c_char, *mut *mut c_void, i32, u64, *mut u32);
    cuFuncGetName(*mut *const c_char, Handle);
    cuFuncGetParamInfo(Handle, usize, *mut usize, *mut usize);
    cuDeviceGetByPCIBusId(*mut i32, *const c_char);
    cuDeviceGetP2PAttribute(*mut i32, u32, i32, i32);
    cuCtxGetFlags(*mut u32);
    cuEventCreate(*mut Handle, u32);
    cuEventRecord(Handle, Handle);
    cuEventSynchronize(Handle);
    cuEventQuery(Handle);
    cuEventElapsedTime(*mut f32, Handle, Handle);
    cuEventDestroy_v2(Handle);
}

/// The driver, loaded and initialised by the first call.
///
/// # Errors
/// The code of `cuInit`, or that there is no driver.
pub fn driver() -> Result<&'static Driver> {
    static DRIVER: OnceLock<Result<Driver>> = OnceLock::new();
    let open = || {
        let driver = Driver::load().map_err(|error| {
            eprintln!("libcudart: the CUDA driver cannot be opened: {error}");
            Status::INSUFFICIENT_DRIVER
        })?;
        // SAFETY: the function takes flags, which must be 0.
        Status(unsafe { (driver.cuInit)(0) }).check()?;
        Ok(driver)
    };
    DRIVER.get_or_init(open).as_ref().map_err(|status| *status)
}

/// Calls a driver function and turns its code into a [`Result`].
macro_rules! call {
    ($name:ident($($argument:expr),* $(,)?)) => {{
        let function = $crate::driver::driver()?.$name;
        // SAFETY: pointers are ours, or the program's, which promised the runtime what the runtime promises the driver.
        $crate::status::Status(unsafe { function($($argument),*) }).check()
    }};
}

pub(crate) use call;
