package nvml

// families is every entry point but nvmlErrorString.
var families = []family{
	{title: "Initialization and the system", entries: []entry{
		{name: "nvmlInit", args: "", do: initialize, early: true},
		{name: "nvmlInit_v2", args: "", do: initialize, early: true},
		{name: "nvmlInitWithFlags", args: "i", do: initWithFlags, early: true, note: "no GPU is NVML_ERROR_DRIVER_NOT_LOADED with any flags"},
		{name: "nvmlShutdown", args: "", do: shutdown, note: "counted: the last one ends it"},
		{name: "nvmlSystemGetDriverVersion", args: "pi", do: driverVersion, note: "the version of PVDRM's DRM driver, such as 1.0"},
		{name: "nvmlSystemGetNVMLVersion", args: "pi", do: nvmlVersion, early: true, note: "12 and the version of the driver"},
		{name: "nvmlSystemGetCudaDriverVersion", args: "p", do: cudaVersion, note: "that of cuDriverGetVersion"},
		{name: "nvmlSystemGetCudaDriverVersion_v2", args: "p", do: cudaVersion, note: "that of cuDriverGetVersion"},
		{name: "nvmlSystemGetProcessName", args: "ipi", do: systemGetProcessName, note: "the first word of its command line, cut to the room"},
		{name: "nvmlSystemGetHicVersion", args: "pa", do: none(0), note: "there are none"},
		{name: "nvmlUnitGetCount", args: "p", do: none(0), note: "there are none"},
		{name: "nvmlGetExcludedDeviceCount", args: "p", do: none(0), note: "there are none"},
		{name: "nvmlUnitGetHandleByIndex", args: "ip", result: ErrInvalidArgument},
		{name: "nvmlGetExcludedDeviceInfoByIndex", args: "ip", result: ErrInvalidArgument},
	}},
	{title: "The device", entries: []entry{
		{name: "nvmlDeviceGetCount", args: "p", do: deviceCount},
		{name: "nvmlDeviceGetCount_v2", args: "p", do: deviceCount},
		{name: "nvmlDeviceGetHandleByIndex", args: "ip", do: handleByIndex},
		{name: "nvmlDeviceGetHandleByIndex_v2", args: "ip", do: handleByIndex},
		{name: "nvmlDeviceGetHandleByUUID", args: "pp", do: handleByUUID},
		{name: "nvmlDeviceGetHandleByUUIDV", args: "pp", do: handleByUUIDV},
		{name: "nvmlDeviceGetHandleByPciBusId", args: "pp", do: handleByBusID},
		{name: "nvmlDeviceGetHandleByPciBusId_v2", args: "pp", do: handleByBusID},
		{name: "nvmlDeviceGetHandleBySerial", args: "pp", do: handleBySerial, note: "the device has none, so always NVML_ERROR_NOT_FOUND"},
		{name: "nvmlDeviceGetName", args: "dpi", do: deviceName, note: "as cuDeviceGetName"},
		{name: "nvmlDeviceGetUUID", args: "dpi", do: deviceUUID, note: "as cuDeviceGetUuid"},
		{name: "nvmlDeviceGetIndex", args: "dp", do: deviceIndex, note: "CUDA_VISIBLE_DEVICES changes nothing here"},
		{name: "nvmlDeviceGetMinorNumber", args: "dp", do: deviceIndex, note: "the index; there is no /dev/nvidia0"},
		{name: "nvmlDeviceGetBrand", args: "dp", do: number(1, 0), note: "unknown"},
		{name: "nvmlDeviceGetArchitecture", args: "dp", do: architecture, note: "that of the compute capability"},
		{name: "nvmlDeviceGetCudaComputeCapability", args: "dpp", do: computeCapability},
		{name: "nvmlDeviceGetPciInfo", args: "dp", do: pciInfo(32), note: "as cuDeviceGetPCIBusId; the ids of vendor and device are 0"},
		{name: "nvmlDeviceGetPciInfo_v2", args: "dp", do: pciInfo(36), note: "the same"},
		{name: "nvmlDeviceGetPciInfo_v3", args: "dp", do: pciInfo(68), note: "the same"},
		{name: "nvmlDeviceGetNumGpuCores", args: "dp", do: cores, note: "multiprocessors, by the cores that NVIDIA gives those of this compute capability"},
		{name: "nvmlDeviceGetMemoryBusWidth", args: "dp", do: busWidth},
		{name: "nvmlDeviceGetComputeMode", args: "dp", do: number(1, 0), note: "any number of programs"},
		{name: "nvmlDeviceGetPersistenceMode", args: "dp", do: number(1, 1), note: "the device stays ready without programs"},
		{name: "nvmlDeviceGetDisplayMode", args: "dp", do: number(1, 0)},
		{name: "nvmlDeviceGetDisplayActive", args: "dp", do: number(1, 0)},
		{name: "nvmlDeviceGetMultiGpuBoard", args: "dp", do: number(1, 0)},
		{name: "nvmlDeviceOnSameBoard", args: "ddp", do: onSameBoard, note: "only a device and itself"},
		{name: "nvmlDeviceGetTopologyCommonAncestor", args: "ddp", do: topology, note: "the host bridge; NVML_ERROR_NOT_SUPPORTED for a device and itself, as on an H100"},
		{name: "nvmlDeviceGetP2PStatus", args: "ddip", do: peerStatus, note: "reading and writing, where devices reach each other's memory"},
		{name: "nvmlDeviceGetTopologyNearestGpus", args: "dipa", do: nearest, note: "all others, at the host bridge"},
		{name: "nvmlDeviceIsMigDeviceHandle", args: "dp", do: number(1, 0)},
		{name: "nvmlDeviceGetMaxMigDeviceCount", args: "dp", do: number(1, 0)},
	}},
	{title: "Memory, utilization and processes", entries: []entry{
		{name: "nvmlDeviceGetMemoryInfo", args: "dp", do: memoryInfo, note: "what this guest may have, by its quota and its device, and has, with what the driver takes for it"},
		{name: "nvmlDeviceGetMemoryInfo_v2", args: "dp", do: memoryInfoV2, note: "the same; nothing is reserved"},
		{name: "nvmlDeviceGetUtilizationRates", args: "dp", do: utilization, note: "gpu: kernels of this guest ran; memory: its copies did"},
		{name: "nvmlDeviceGetComputeRunningProcesses", args: "dpa", do: running(processInfo, processInfoBytes), note: "processes of this guest that have opened the device"},
		{name: "nvmlDeviceGetComputeRunningProcesses_v2", args: "dpa", do: running(processInfoV2, processInfoV2Bytes), note: "processes of this guest that have opened the device"},
		{name: "nvmlDeviceGetComputeRunningProcesses_v3", args: "dpa", do: running(processInfoV2, processInfoV2Bytes), note: "processes of this guest that have opened the device"},
		{name: "nvmlDeviceGetGraphicsRunningProcesses", args: "dpa", do: noProcesses, note: "there are none: OpenGL is not counted"},
		{name: "nvmlDeviceGetGraphicsRunningProcesses_v2", args: "dpa", do: noProcesses, note: "there are none: OpenGL is not counted"},
		{name: "nvmlDeviceGetGraphicsRunningProcesses_v3", args: "dpa", do: noProcesses, note: "there are none: OpenGL is not counted"},
		{name: "nvmlDeviceGetMPSComputeRunningProcesses", args: "dpa", do: noProcesses, note: "there are none"},
		{name: "nvmlDeviceGetMPSComputeRunningProcesses_v2", args: "dpa", do: noProcesses, note: "there are none"},
		{name: "nvmlDeviceGetMPSComputeRunningProcesses_v3", args: "dpa", do: noProcesses, note: "there are none"},
		{name: "nvmlDeviceGetRunningProcessDetailList", args: "dp", do: processDetails},
		{name: "nvmlDeviceGetProcessUtilization", args: "dapw", do: processUtilization, note: "one sample a process, of the last sample period"},
		{name: "nvmlDeviceGetFieldValues", args: "dip", do: fieldValues, note: "each field is NVML_ERROR_NOT_SUPPORTED"},
	}},
	{title: "Sensors, clocks, power, links, errors and events: the device has none", entries: rows(ErrNotSupported, `
		nvmlSystemGetTopologyGpuSet/ipa nvmlSystemGetDriverBranch/pi nvmlSystemGetCPER_v1/p
		nvmlUnitGetUnitInfo/hp nvmlUnitGetLedState/hp
		nvmlUnitGetPsuInfo/hp nvmlUnitGetTemperature/hip nvmlUnitGetFanSpeedInfo/hp
		nvmlUnitGetDevices/hpa nvmlDeviceGetAttributes_v2/dp nvmlDeviceGetSerial/dpi
		nvmlDeviceGetModuleId/dp nvmlDeviceGetC2cModeInfoV/dp nvmlDeviceGetMemoryAffinity/dipi
		nvmlDeviceGetCpuAffinityWithinScope/dipi nvmlDeviceGetCpuAffinity/dip
		nvmlDeviceSetCpuAffinity/d nvmlDeviceClearCpuAffinity/d nvmlDeviceGetNumaNodeId/dp
		nvmlDeviceGetAddressingMode/dp nvmlDeviceGetRepairStatus/dp
		nvmlDeviceGetUnrepairableMemoryFlag_v1/dp 		nvmlDeviceGetBoardPartNumber/dpi nvmlDeviceGetInforomVersion/dipi
		nvmlDeviceGetInforomImageVersion/dpi nvmlDeviceGetInforomConfigurationChecksum/dp
		nvmlDeviceValidateInforom/d nvmlDeviceGetLastBBXFlushTime/dpp nvmlDeviceGetBBXTimeData_v1/dp
		nvmlDeviceGetPciInfoExt/dp nvmlDeviceGetMaxPcieLinkGeneration/dp
		nvmlDeviceGetGpuMaxPcieLinkGeneration/dp nvmlDeviceGetMaxPcieLinkWidth/dp
		nvmlDeviceGetCurrPcieLinkGeneration/dp nvmlDeviceGetCurrPcieLinkWidth/dp
		nvmlDeviceGetPcieThroughput/dip nvmlDeviceGetPcieReplayCounter/dp nvmlDeviceGetClockInfo/dip
		nvmlDeviceGetMaxClockInfo/dip nvmlDeviceGetGpcClkVfOffset/dp
		nvmlDeviceGetApplicationsClock/dip nvmlDeviceGetDefaultApplicationsClock/dip
		nvmlDeviceGetClock/diip nvmlDeviceGetMaxCustomerBoostClock/dip
		nvmlDeviceGetSupportedMemoryClocks/dpa nvmlDeviceGetSupportedGraphicsClocks/dipa
		nvmlDeviceGetAutoBoostedClocksEnabled/dpp nvmlDeviceGetFanSpeed/dp
		nvmlDeviceGetFanSpeed_v2/dip nvmlDeviceGetFanSpeedRPM/dp nvmlDeviceGetTargetFanSpeed/dip
		nvmlDeviceGetMinMaxFanSpeed/dpp nvmlDeviceGetFanControlPolicy_v2/dip nvmlDeviceGetNumFans/dp
		nvmlDeviceGetTemperature/dip nvmlDeviceGetCoolerInfo/dp nvmlDeviceGetTemperatureV/dp
		nvmlDeviceGetTemperatureThreshold/dip nvmlDeviceGetMarginTemperature/dp
		nvmlDeviceGetThermalSettings/dip nvmlDeviceGetPerformanceState/dp
		nvmlDeviceGetCurrentClocksEventReasons/dp nvmlDeviceGetCurrentClocksThrottleReasons/dp
		nvmlDeviceGetSupportedClocksEventReasons/dp nvmlDeviceGetSupportedClocksThrottleReasons/dp
		nvmlDeviceGetPowerState/dp nvmlDeviceGetDynamicPstatesInfo/dp nvmlDeviceGetMemClkVfOffset/dp
		nvmlDeviceGetMinMaxClockOfPState/diipp nvmlDeviceGetSupportedPerformanceStates/dpi
		nvmlDeviceGetGpcClkMinMaxVfOffset/dpp nvmlDeviceGetMemClkMinMaxVfOffset/dpp
		nvmlDeviceGetClockOffsets/dp nvmlDeviceGetPerformanceModes/dp
		nvmlDeviceGetCurrentClockFreqs/dp nvmlDeviceGetPowerManagementMode/dp
		nvmlDeviceGetPowerManagementLimit/dp nvmlDeviceGetPowerManagementLimitConstraints/dpp
		nvmlDeviceGetPowerManagementDefaultLimit/dp nvmlDeviceGetPowerUsage/dp
		nvmlDeviceGetPowerMizerMode_v1/dp nvmlDeviceGetTotalEnergyConsumption/dp
		nvmlDeviceGetEnforcedPowerLimit/dp nvmlDeviceGetGpuOperationMode/daa
		nvmlDeviceGetDramEncryptionMode/dpp nvmlDeviceGetEccMode/dpp nvmlDeviceGetDefaultEccMode/dp
		nvmlDeviceGetBoardId/dp nvmlDeviceGetTotalEccErrors/diip nvmlDeviceGetDetailedEccErrors/diip
		nvmlDeviceGetMemoryErrorCounter/diiip nvmlDeviceGetEncoderUtilization/dpp
		nvmlDeviceGetEncoderCapacity/dip nvmlDeviceGetEncoderStats/dppp
		nvmlDeviceGetEncoderSessions/dpa nvmlDeviceGetDecoderUtilization/dpp
		nvmlDeviceGetJpgUtilization/dpp nvmlDeviceGetOfaUtilization/dpp nvmlDeviceGetFBCStats/dp
		nvmlDeviceGetFBCSessions/dpa nvmlDeviceGetDriverModel_v2/dpp nvmlDeviceGetVbiosVersion/dpi
		nvmlDeviceGetBridgeChipInfo/dp nvmlDeviceGetAPIRestriction/dip nvmlDeviceGetSamples/diwppa
		nvmlDeviceGetBAR1MemoryInfo/dp nvmlDeviceGetViolationStatus/dip nvmlDeviceGetIrqNum/dp
		nvmlDeviceGetPowerSource/dp nvmlDeviceGetPcieLinkMaxSpeed/dp nvmlDeviceGetPcieSpeed/dp
		nvmlDeviceGetAdaptiveClockInfoStatus/dp nvmlDeviceGetBusType/dp nvmlDeviceGetGpuFabricInfo/dp
		nvmlDeviceGetGpuFabricInfoV/dp nvmlSystemGetConfComputeCapabilities/p
		nvmlSystemGetConfComputeState/p nvmlDeviceGetConfComputeMemSizeInfo/dp
		nvmlSystemGetConfComputeGpusReadyState/p nvmlDeviceGetConfComputeProtectedMemoryUsage/dp
		nvmlDeviceGetConfComputeGpuCertificate/dp nvmlDeviceGetConfComputeGpuAttestationReport/dp
		nvmlSystemGetConfComputeKeyRotationThresholdInfo/p nvmlSystemGetConfComputeSettings/p
		nvmlDeviceGetGspFirmwareVersion/dp nvmlDeviceGetGspFirmwareMode/dpp
		nvmlDeviceGetSramEccErrorStatus/dp nvmlDeviceGetAccountingMode/dp
		nvmlDeviceGetAccountingStats/dip nvmlDeviceGetAccountingPids/dpa
		nvmlDeviceGetAccountingBufferSize/dp nvmlDeviceGetAccountingStats_v2/dp
		nvmlDeviceGetRetiredPages/dipa nvmlDeviceGetRetiredPages_v2/dipap
		nvmlDeviceGetRetiredPagesPendingStatus/dp nvmlDeviceGetRemappedRows/dpppp
		nvmlDeviceGetRowRemapperHistogram/dp nvmlDeviceGetClkMonStatus/dp
		nvmlDeviceGetProcessesUtilizationInfo/dp nvmlDeviceGetPlatformInfo/dp nvmlDeviceGetPdi/dp
		nvmlDeviceGetHostname_v1/dp nvmlDeviceGetNvLinkState/dip nvmlDeviceGetNvLinkVersion/dip
		nvmlDeviceGetNvLinkCapability/diip nvmlDeviceGetNvLinkRemotePciInfo_v2/dip
		nvmlDeviceGetNvLinkErrorCounter/diip nvmlDeviceGetNvLinkUtilizationControl/diia
		nvmlDeviceGetNvLinkUtilizationCounter/diiaa nvmlDeviceGetNvLinkRemoteDeviceType/dip
		nvmlSystemGetNvlinkBwMode/p nvmlDeviceGetNvlinkSupportedBwModes/dp
		nvmlDeviceGetNvlinkBwMode/dp nvmlDeviceGetNvLinkInfo/dp nvmlEventSetCreate/p
		nvmlDeviceRegisterEvents/dwh nvmlDeviceGetSupportedEventTypes/dp nvmlEventSetWait_v2/hpi
		nvmlEventSetFree/h nvmlSystemEventSetCreate/p nvmlSystemEventSetFree/p
		nvmlSystemRegisterEvents/p nvmlSystemEventSetWait/p nvmlDeviceQueryDrainState/pp
		nvmlDeviceClearFieldValues/dip 		nvmlDeviceReadPRMCounters_v1/dp nvmlGpmMetricsGet/p nvmlGpmSampleFree/h nvmlGpmSampleAlloc/p
		nvmlGpmSampleGet/dh nvmlGpmQueryDeviceSupport/dp nvmlGpmQueryIfStreamingEnabled/dp
		nvmlDeviceGetCapabilities/dp nvmlDeviceWorkloadPowerProfileGetProfilesInfo/dp
		nvmlDeviceWorkloadPowerProfileGetCurrentProfiles/dp
		nvmlDeviceGetSramUniqueUncorrectedEccErrorCounts/dp nvmlDeviceGetRemappedRows_v2/dp
		nvmlDeviceGetNvLinkRemotePciInfo/dip nvmlEventSetWait/hpi nvmlDeviceGetAttributes/dp
		nvmlDeviceGetDriverModel/dpp`)},
	{title: "Instances of a GPU, and virtual GPUs of NVIDIA's", entries: rows(ErrNotSupported, `
		nvmlDeviceGetVirtualizationMode/dp nvmlDeviceGetHostVgpuMode/dp
		nvmlDeviceGetVgpuHeterogeneousMode/da nvmlVgpuInstanceGetPlacementId/hp
		nvmlDeviceGetVgpuTypeSupportedPlacements/dia nvmlDeviceGetVgpuTypeCreatablePlacements/dia
		nvmlVgpuTypeGetGspHeapSize/hp nvmlVgpuTypeGetFbReservation/hp
		nvmlVgpuInstanceGetRuntimeStateSize/hp nvmlDeviceGetGridLicensableFeatures_v4/dp
		nvmlGetVgpuDriverCapabilities/ip nvmlDeviceGetVgpuCapabilities/dip
		nvmlDeviceGetSupportedVgpus/daa nvmlDeviceGetCreatableVgpus/daa nvmlVgpuTypeGetClass/hpp
		nvmlVgpuTypeGetName/hpp nvmlVgpuTypeGetGpuInstanceProfileId/hp nvmlVgpuTypeGetDeviceID/hpp
		nvmlVgpuTypeGetFramebufferSize/hp nvmlVgpuTypeGetNumDisplayHeads/hp
		nvmlVgpuTypeGetResolution/hipp nvmlVgpuTypeGetLicense/hpi nvmlVgpuTypeGetFrameRateLimit/hp
		nvmlVgpuTypeGetMaxInstances/dia nvmlVgpuTypeGetMaxInstancesPerVm/hp nvmlVgpuTypeGetBAR1Info/hp
		nvmlDeviceGetActiveVgpus/daa nvmlVgpuInstanceGetVmID/hpip nvmlVgpuInstanceGetUUID/hpi
		nvmlVgpuInstanceGetVmDriverVersion/hpi nvmlVgpuInstanceGetFbUsage/hp
		nvmlVgpuInstanceGetLicenseStatus/hp nvmlVgpuInstanceGetType/hp
		nvmlVgpuInstanceGetFrameRateLimit/hp nvmlVgpuInstanceGetEccMode/hp
		nvmlVgpuInstanceGetEncoderCapacity/hp nvmlVgpuInstanceGetEncoderStats/hppp
		nvmlVgpuInstanceGetEncoderSessions/hpa nvmlVgpuInstanceGetFBCStats/hp
		nvmlVgpuInstanceGetFBCSessions/hpa nvmlVgpuInstanceGetGpuInstanceId/hp
		nvmlVgpuInstanceGetGpuPciId/hpp nvmlVgpuTypeGetCapabilities/hip
		nvmlVgpuInstanceGetMdevUUID/hpi nvmlGpuInstanceGetCreatableVgpus/hp
		nvmlVgpuTypeGetMaxInstancesPerGpuInstance/p nvmlGpuInstanceGetActiveVgpus/hp
		nvmlGpuInstanceGetVgpuSchedulerState/hp nvmlGpuInstanceGetVgpuSchedulerLog/hp
		nvmlGpuInstanceGetVgpuTypeCreatablePlacements/hp nvmlGpuInstanceGetVgpuHeterogeneousMode/hp
		nvmlDeviceGetVgpuSchedulerState_v2/dp nvmlGpuInstanceGetVgpuSchedulerState_v2/hp
		nvmlDeviceGetVgpuSchedulerLog_v2/dp nvmlGpuInstanceGetVgpuSchedulerLog_v2/hp
		nvmlVgpuInstanceGetMetadata/hpp nvmlDeviceGetVgpuMetadata/dpp nvmlGetVgpuCompatibility/ppp
		nvmlDeviceGetPgpuMetadataString/dpp nvmlDeviceGetVgpuSchedulerLog/dp
		nvmlDeviceGetVgpuSchedulerState/dp nvmlDeviceGetVgpuSchedulerCapabilities/dp
		nvmlGetVgpuVersion/pp nvmlDeviceGetVgpuUtilization/dwaaa
		nvmlDeviceGetVgpuInstancesUtilizationInfo/dp nvmlDeviceGetVgpuProcessUtilization/dwaa
		nvmlDeviceGetVgpuProcessesUtilizationInfo/dp nvmlVgpuInstanceGetAccountingMode/hp
		nvmlVgpuInstanceGetAccountingPids/hpa nvmlVgpuInstanceGetAccountingStats/hip
		nvmlVgpuInstanceGetLicenseInfo_v2/hp nvmlDeviceGetMigMode/dpp
		nvmlDeviceGetGpuInstanceProfileInfo/dip nvmlDeviceGetGpuInstanceProfileInfoV/dip
		nvmlDeviceGetGpuInstanceProfileInfoByIdV/dip
		nvmlDeviceGetGpuInstancePossiblePlacements_v2/dipp
		nvmlDeviceGetGpuInstanceRemainingCapacity/dip nvmlDeviceGetGpuInstances/dipp
		nvmlDeviceGetGpuInstanceById/dip nvmlGpuInstanceGetInfo/hp
		nvmlGpuInstanceGetComputeInstanceProfileInfo/hiip
		nvmlGpuInstanceGetComputeInstanceProfileInfoV/hiip
		nvmlGpuInstanceGetComputeInstanceRemainingCapacity/hip
		nvmlGpuInstanceGetComputeInstancePossiblePlacements/hipp
		nvmlGpuInstanceGetComputeInstances/hipp nvmlGpuInstanceGetComputeInstanceById/hip
		nvmlComputeInstanceGetInfo_v2/hp nvmlDeviceGetGpuInstanceId/dp
		nvmlDeviceGetComputeInstanceId/dp nvmlDeviceGetMigDeviceHandleByIndex/dip
		nvmlDeviceGetDeviceHandleFromMigDeviceHandle/dp nvmlGpmMigSampleGet/dih
		nvmlDeviceGetGridLicensableFeatures/dp nvmlDeviceGetGridLicensableFeatures_v2/dp
		nvmlDeviceGetGridLicensableFeatures_v3/dp nvmlComputeInstanceGetInfo/hp
		nvmlDeviceGetGpuInstancePossiblePlacements/dipp nvmlVgpuInstanceGetLicenseInfo/hp`)},
	{title: "What changes the device", entries: rows(ErrNoPermission, `
		nvmlDeviceSetClockOffsets/dp nvmlDeviceSetPowerMizerMode_v1/dp
		nvmlDeviceSetDramEncryptionMode/dp nvmlDeviceSetConfComputeUnprotectedMemSize/dw
		nvmlSystemSetConfComputeGpusReadyState/i nvmlSystemSetConfComputeKeyRotationThresholdInfo/p
		nvmlDeviceSetPowerManagementLimit_v2/dp nvmlDeviceSetHostname_v1/dp nvmlUnitSetLedState/hi
		nvmlDeviceSetPersistenceMode/di nvmlDeviceSetComputeMode/di nvmlDeviceSetEccMode/di
		nvmlDeviceClearEccErrorCounts/di nvmlDeviceSetDriverModel/dii nvmlDeviceSetGpuLockedClocks/dii
		nvmlDeviceResetGpuLockedClocks/d nvmlDeviceSetMemoryLockedClocks/dii
		nvmlDeviceResetMemoryLockedClocks/d nvmlDeviceSetApplicationsClocks/dii
		nvmlDeviceResetApplicationsClocks/d nvmlDeviceSetAutoBoostedClocksEnabled/di
		nvmlDeviceSetDefaultAutoBoostedClocksEnabled/dii nvmlDeviceSetDefaultFanSpeed_v2/di
		nvmlDeviceSetFanControlPolicy/dii nvmlDeviceSetTemperatureThreshold/dip
		nvmlDeviceSetPowerManagementLimit/di nvmlDeviceSetGpuOperationMode/di
		nvmlDeviceSetAPIRestriction/dii nvmlDeviceSetFanSpeed_v2/dii nvmlDeviceSetGpcClkVfOffset/di
		nvmlDeviceSetMemClkVfOffset/di nvmlDeviceSetAccountingMode/di nvmlDeviceClearAccountingPids/d
		nvmlDeviceResetNvLinkErrorCounters/di nvmlDeviceSetNvLinkUtilizationControl/diipi
		nvmlDeviceFreezeNvLinkUtilizationCounter/diii nvmlDeviceResetNvLinkUtilizationCounter/dii
		nvmlDeviceSetNvLinkDeviceLowPowerThreshold/dp nvmlSystemSetNvlinkBwMode/i
		nvmlDeviceSetNvlinkBwMode/dp nvmlDeviceModifyDrainState/pi nvmlDeviceRemoveGpu_v2/pii
		nvmlDeviceDiscoverGpus/p nvmlDeviceSetVirtualizationMode/di
		nvmlDeviceSetVgpuHeterogeneousMode/dp nvmlDeviceSetVgpuCapabilities/dii
		nvmlDeviceVgpuForceGspUnload/d nvmlVgpuInstanceSetEncoderCapacity/hi
		nvmlGpuInstanceSetVgpuSchedulerState/hp nvmlGpuInstanceSetVgpuHeterogeneousMode/hp
		nvmlDeviceSetVgpuSchedulerState_v2/dp nvmlGpuInstanceSetVgpuSchedulerState_v2/hp
		nvmlDeviceSetVgpuSchedulerState/dp nvmlSetVgpuVersion/p nvmlVgpuInstanceClearAccountingPids/h
		nvmlDeviceReadWritePRM_v1/dp nvmlDeviceSetMigMode/dip nvmlDeviceCreateGpuInstance/dip
		nvmlDeviceCreateGpuInstanceWithPlacement/dipp nvmlGpuInstanceDestroy/h
		nvmlGpuInstanceCreateComputeInstance/hip
		nvmlGpuInstanceCreateComputeInstanceWithPlacement/hipp nvmlComputeInstanceDestroy/h
		nvmlGpmSetStreamingEnabled/di nvmlDeviceWorkloadPowerProfileSetRequestedProfiles/dp
		nvmlDeviceWorkloadPowerProfileClearRequestedProfiles/dp
		nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1/dp
		nvmlDevicePowerSmoothingActivatePresetProfile/dp
		nvmlDevicePowerSmoothingUpdatePresetProfileParam/dp nvmlDevicePowerSmoothingSetState/dp
		nvmlDeviceSetRusdSettings_v1/dp nvmlDeviceRemoveGpu/p`)},
}
