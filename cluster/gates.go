package cluster

import (
	"log/slog"
	"strings"
	"sync"
)

// Gates are the feature gates that kloop honours, with upstream's defaults. What other gates switch is always as
// upstream has it by default.
func Gates() map[string]bool {
	return map[string]bool{
		"WatchList": true, // sendInitialEvents of watches
	}
}

// enabled says whether a feature is on.
func (c Config) enabled(gate string) bool {
	if on, said := c.Features[gate]; said {
		return on
	}
	return Gates()[gate]
}

// Idle are the gates among the given ones that have no effect here, though they say other than upstream's default.
func Idle(set map[string]bool) (list []string) {
	for _, gate := range names(set) {
		_, honoured := Gates()[gate]
		if usual, known := knownGates()[gate]; known && !honoured && set[gate] != usual {
			list = append(list, gate)
		}
	}
	return list
}

// tellIdle warns of gates without an effect.
func tellIdle(log *slog.Logger, set map[string]bool) {
	for _, gate := range Idle(set) {
		log.Warn("a feature gate has no effect in kloop, which does what Kubernetes does by default", "gate", gate, "default", knownGates()[gate])
	}
}

// knownGates are upstream's gates, with their defaults.
var knownGates = sync.OnceValue(func() map[string]bool {
	all := Gates()
	for list, on := range map[string]bool{gatesOn: true, gatesOff: false, gatesDone: true, gatesDeprecated: false} {
		for name := range strings.FieldsSeq(list) {
			all[name] = on
		}
	}
	return all
})

// Upstream's gates by what they are: beta and on, alpha or off, done, deprecated.
const (
	gatesOn = `AggregatedDiscoveryRemoveBetaType AllowUnsafeMalformedObjectDeletion ConcurrentWatchObjectDecode EtcdRangeStream ExcludeAdmissionWebhookVirtualResources
		ManifestBasedAdmissionControlConfig WatchListCompression WebhookRoundTripLoadBalancing APIResponseCompression APIServerIdentity AllowParsingUserUIDFromCertAuth CPUManagerPolicyBetaOptions ComponentFlagz ComponentStatusz
		ConstrainedImpersonation ContainerCheckpoint ContainerRestartRules ContextualLogging DRAConsumableCapacity DRADeviceBindingConditions DRADeviceTaints
		DRAExtendedResource DRAPartitionableDevices DRAResourceClaimDeviceStatus DRAResourceClaimGranularStatusAuthorization DRASchedulerFilterTimeout
		DeclarativeValidationBeta DeploymentReplicaSetTerminatingReplicas DetectCacheInconsistency EnvFiles ExtendWebSocketsToKubelet GracefulNodeShutdown
		GracefulNodeShutdownBasedOnPodPriority HPAConfigurableTolerance HostnameOverride InOrderInformersBatchProcess InPlacePodLevelResourcesVerticalScaling
		InPlacePodVerticalScalingInitContainers KubeletCrashLoopBackOffMax KubeletEnsureSecretPulledImages KubeletSeparateDiskGC
		KubeletServiceAccountTokenForCredentialProviders ListFromCacheSnapshot LoggingBetaOptions MatchLabelKeysInPodTopologySpread
		MatchLabelKeysInPodTopologySpreadSelectorMerge MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs NodeDeclaredFeatures
		NominatedNodeNameForExpectation OpenAPIEnums OpportunisticBatching PLEGOnDemandRelist PodDeletionCost PodLevelResources
		PodReadyToStartContainersCondition PodTopologyLabelsAdmission PortForwardWebsockets PreventStaticPodAPIReferences RelaxedServiceNameValidation
		ReloadKubeletClientCAFile ReloadKubeletServerCertificateFile RemoteRequestHeaderUID ResourceHealthStatus ResourceHealthStatusMessage
		RestartAllContainersOnContainerExits RotateKubeletServerCertificate SchedulerAsyncPreemption SchedulerPopFromBackoffQ
		ServiceAccountNodeAudienceRestriction SizeBasedListCostEstimate StaleControllerConsistencyDaemonSet StaleControllerConsistencyJob
		StaleControllerConsistencyReplicaSet StaleControllerConsistencyStatefulSet StatefulSetSemanticRevisionComparison StorageVersionHash
		StorageVersionMigrator StrictIPCIDRValidation StructuredAuthenticationConfigurationEgressSelector StructuredAuthenticationConfigurationJWKSMetrics
		TokenRequestServiceAccountUIDValidation TopologyManagerPolicyBetaOptions TranslateStreamCloseWebsocketRequests UnauthenticatedHTTP2DOSMitigation
		UnknownVersionInteroperabilityProxy UnlockWhileProcessingFIFO WatchCacheInitializationPostStartHook WatchListClient WindowsGracefulNodeShutdown`

	gatesOff = `AllAlpha AllBeta APIServingWithRoutine CBORServingAndStorage CPUCFSQuotaPeriod CPUManagerPolicyAlphaOptions
		CRDObservedGenerationTracking CSIVolumeHealth CloudControllerManagerWatchBasedRoutesReconciliation CloudControllerManagerWebhook ClusterTrustBundle
		ClusterTrustBundleProjection ConsistentListFromCacheSkipTimeoutFallback ContainerStopSignals
		ControllerManagerReleaseLeaderElectionLockOnExit CoordinatedLeaderElection CrossNamespaceVolumeDataSource CustomCPUCFSQuotaPeriod DRADeviceTaintRules
		DRAListTypeAttributes DRANodeAllocatableResources DRAResourcePoolStatus DRAWorkloadResourceClaims EventedPLEG
		GangScheduling GenericWorkload HPAScaleToZero ImageVolumeWithDigest InPlacePodVerticalScalingExclusiveCPUs
		InPlacePodVerticalScalingExclusiveMemory KubeletInUserNamespace LocalStorageCapacityIsolationFSQuotaMonitoring LoggingAlphaOptions
		MaxUnavailableStatefulSet MemoryQoS MutablePVNodeAffinity NativeHistograms PersistentVolumeClaimUnusedSinceTime
		PodAndContainerStatsFromCRI PodCertificateRequest PodLevelResourceManagers PodLogsQuerySplitStreams PodsAPI QOSReserved ReduceDefaultCrashLoopBackOffDecay
		RuntimeClassInImageCriApi SELinuxMount SchedulerAsyncAPICalls SeparateCacheWatchRPC ShardedListAndWatch StorageCapacityScoring StorageVersionAPI
		TaintTolerationComparisonOperators TopologyAwareWorkloadScheduling TopologyManagerPolicyAlphaOptions UserNamespacesHostNetworkSupport VolumeLimitScaling
		WindowsCPUAndMemoryAffinity WorkloadAwarePreemption WorkloadWithJob`

	gatesDone = `APIServerTracing AnonymousAuthConfigurableEndpoints AnyVolumeDataSource AuthorizeNodeWithSelectors AuthorizeWithSelectors BtreeWatchCache
		CPUManagerPolicyOptions CRDValidationRatcheting CSIMigrationPortworx ClearingNominatedNodeNameAfterBinding ComponentSLIs ConsistentListFromCache
		CronJobsScheduledAnnotation CustomResourceFieldSelectors DRAAdminAccess DRAPrioritizedList DeclarativeValidation DevicePluginCDIDevices DisableAllocatorDualWrite DisableCPUQuotaWithExclusiveCPUs DynamicResourceAllocation ExecProbeTimeout
		ExternalServiceAccountTokenSigner HonorPVReclaimPolicy ImageMaximumGCAge ImageVolume InPlacePodVerticalScaling JobBackoffLimitPerIndex JobManagedBy
		JobPodReplacementPolicy JobSuccessPolicy KubeletCgroupDriverFromCRI KubeletFineGrainedAuthz KubeletPodResourcesDynamicResources KubeletPodResourcesGet
		KubeletPodResourcesListUseActivePods KubeletPSI KubeletTracing LoadBalancerIPMode LoggingStableOptions MatchLabelKeysInPodAffinity MemoryManager
		MultiCIDRServiceAllocator MutableCSINodeAllocatableCount MutatingAdmissionPolicy NFTablesProxyMode NodeInclusionPolicyInPodTopologySpread NodeLogQuery NodeSwap
		OrderedNamespaceDeletion PodLifecycleSleepAction PodLifecycleSleepActionAllowZero PodObservedGenerationTracking PodSchedulingReadiness PreferSameTrafficDistribution
		ProbeHostPodSecurityStandards ProcMountType RecoverVolumeExpansionFailure RecursiveReadOnlyMounts RelaxedDNSSearchValidation RelaxedEnvironmentVariableValidation
		ResilientWatchCacheInitialization RetryGenerateName RotateKubeletClientCertificate SELinuxChangePolicy SELinuxMountReadWriteOncePod SchedulerQueueingHints
		SeparateTaintEvictionController ServiceAccountTokenJTI ServiceAccountTokenNodeBinding ServiceAccountTokenNodeBindingValidation
		ServiceAccountTokenPodNodeInfo ServiceTrafficDistribution SidecarContainers StatefulSetAutoDeletePVC StreamingCollectionEncodingToJSON
		StreamingCollectionEncodingToProtobuf StructuredAuthenticationConfiguration StructuredAuthorizationConfiguration SupplementalGroupsPolicy
		SystemdWatchdog TopologyAwareHints TopologyManagerPolicyOptions UserNamespacesSupport ValidatingAdmissionPolicy VolumeAttributesClass
		WatchFromStorageWithoutResourceVersion WinDSR WinOverlay WindowsHostNetwork ZeroLimitedNominalConcurrencyShares`

	gatesDeprecated = `DeclarativeValidationTakeover APIServerWebhookAuthenticationToken AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests
		AllowOverwriteTerminationGracePeriodSeconds AllowServiceLBStatusOnNonLB DisableNodeKubeProxyVersion GitRepoVolumeDriver
		InPlacePodVerticalScalingAllocatedStatus InTreePluginPortworxUnregister KMSv1 KubeletRegistrationGetOnExistsOnly
		StrictCostEnforcementForVAP StrictCostEnforcementForWebhooks`
)
