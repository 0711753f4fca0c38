package features

// table holds upstream's gates: name, and what each is since a version (see parse); what was before 1.36 is not told. A star
// stands before those that kloop honours, a dash before those that upstream has on and kloop has not: docs/differences.md says what
// they would do. It follows what the programs' help of 1.36 lists, and the tables in the modules
// k8s.io/apiserver, client-go and component-base of 1.37.
const table = `
AggregatedDiscoveryRemoveBetaType d35+!
AllowDNSOnlyNodeCSR d36-
AllowInsecureKubeletCertificateSigningRequests d36-
AllowOverwriteTerminationGracePeriodSeconds d36-
AllowParsingUserUIDFromCertAuth b36+
AllowServiceLBStatusOnNonLB d36-
*AllowUnsafeMalformedObjectDeletion a36- b37+
AnonymousAuthConfigurableEndpoints g36+! x37
AnyVolumeDataSource g36+! x37
APIResponseCompression b36+
*APIServerIdentity b36+
-APIServerTracing g36+! x37
APIServerWebhookAuthenticationToken a37-
APIServingWithRoutine a36-
AtomicFIFO b36+
AtomicWriteVolumeUserFields a37-
AuthorizeNodeWithSelectors g36+! x37
*AuthorizePodWebsocketUpgradeCreatePermission b36+
AuthorizeWithSelectors g36+! x37
BtreeWatchCache g36+! x37
CBORServingAndStorage a36-
ChangeContainerStatusOnKubeletRestart d35-
ClearingNominatedNodeNameAfterBinding b36+
ClientsAllowCARotation b36+
ClientsAllowCBOR a36-
ClientsAllowTLSCacheGC b36+
ClientsPreferCBOR a36-
CloudControllerManagerWatchBasedRoutesReconciliation a36-
CloudControllerManagerWebhook a36-
ClusterTrustBundle b36- g37+
ClusterTrustBundleProjection b36- g37+
*ComponentFlagz b36+
ComponentSLIs g36+!
*ComponentStatusz b36+
CompositePodGroup a37-
ConcurrentWatchObjectDecode b36- b37+
ConsistentListFromCache g36+! x37
ConsistentListFromCacheSkipTimeoutFallback a37-
ConstrainedImpersonation b36+
ContainerCheckpoint b36+
ContainerRestartRules b36+
ContainerStopSignals a36-
-ContextualLogging b36+
ControllerManagerReleaseLeaderElectionLockOnExit a36-
CoordinatedLeaderElection b36-
CPUCFSQuotaPeriod a36-
CPUManagerPolicyAlphaOptions a36-
CPUManagerPolicyBetaOptions b36+
CPUManagerPolicyOptions g36+!
*CRDObservedGenerationTracking b36+
CRDValidationRatcheting g36+!
CRIListStreaming a36-
CronJobsScheduledAnnotation g36+!
CrossNamespaceVolumeDataSource a36-
-CSIMigrationPortworx g36+!
CSIServiceAccountTokenSecrets g36+!
CSIVolumeHealth a36-
CustomCPUCFSQuotaPeriod a36-
CustomResourceFieldSelectors g36+!
DeclarativeValidation g36+!
DeclarativeValidationBeta b36+
DeclarativeValidationTakeover d36- d37-!
DefaultPodSysctls a37-
DeploymentReplicaSetTerminatingReplicas b36+
DetectCacheInconsistency b36+
DevicePluginCDIDevices g36+!
DisableAllocatorDualWrite g36+!
DisableCPUQuotaWithExclusiveCPUs b33+ g37+!
DisableNodeKubeProxyVersion d36-
DRAAdminAccess g36+!
DRAConsumableCapacity b36+
DRADerivedAttributes a37-
DRADeviceBindingConditions b36+
DRADeviceCompatibilityGroups a37-
DRADeviceTaintRules b36- g37+
DRADeviceTaints b36+ g37+
DRAExtendedResource b36+ g37+!
DRAFractionalCapacityRange b37+
DRAListTypeAttributes a36-
DRANodeAllocatableResources a36-
DRAOptionalNodeOperations a37-
DRAPartitionableDevices b36+
DRAPartitionableDevicesType a37-
DRAPrioritizedList g36+ g37+!
DRAResourceClaimDeviceStatus b36+ g37+!
*DRAResourceClaimGranularStatusAuthorization b36+
DRAResourcePoolStatus a36-
DRASchedulerFilterTimeout b36+
DRAWorkloadResourceClaims a36- b37-
DynamicResourceAllocation g36+!
EmptyDirVolumeMode a37-
EnvFiles b36+
EtcdRangeStream b37+
EventedPLEG a36-
EvictionRequestAPI a37-
ExcludeAdmissionWebhookVirtualResources b37+
ExecProbeTimeout g36+!
ExtendWebSocketsToKubelet b36+
-ExternalServiceAccountTokenSigner g36+!
GangScheduling a36- x37
GenericWorkload a36- b37-
GitRepoVolumeDriver d36-
GracefulNodeShutdown b36+
GracefulNodeShutdownBasedOnPodPriority b36+
GRPCContainerProbeTLS a37-
H2CContainerProbe a37-
HonorPVReclaimPolicy g36+!
HostnameOverride b36+ g37+!
HPAConfigurableTolerance b36+ g37+!
HPAGeneration b37+
HPAOptimizedSelectorStore b37+
*HPAScaleToZero a36- b37+
-HugepageAwareEviction b37+
ImageMaximumGCAge g36+!
ImageVolume g36+!
ImageVolumeWithDigest a36-
InformerResourceVersion g35+
InOrderInformers g36+!
InOrderInformersBatchProcess b36+
InPlacePodLevelResourcesVerticalScaling b36+
InPlacePodVerticalScaling g36+!
InPlacePodVerticalScalingAllocatedStatus d36-
InPlacePodVerticalScalingExclusiveCPUs a36-
InPlacePodVerticalScalingExclusiveMemory a36-
InPlacePodVerticalScalingInitContainers b36+ g37+!
InPlacePodVerticalScalingMemoryBackedVolumes a37-
InPlacePodVerticalScalingSchedulerPreemption a37-
InterPodAffinityHostnameFastPath a37-
InTreePluginPortworxUnregister d36-
JobBackoffLimitPerIndex g36+! x37
JobManagedBy g36+!
JobPodReplacementPolicy g36+! x37
JobSuccessPolicy g36+! x37
KMSv1 d36-
KubeletAllocatedPodsEndpoint a37-
*KubeletCgroupDriverFromCRI g36+!
KubeletCrashLoopBackOffMax b36+
KubeletEnsureSecretPulledImages b36+
KubeletFineGrainedAuthz g36+!
-KubeletInUserNamespace a36- b37+
KubeletPodResourcesDynamicResources g36+!
KubeletPodResourcesGet g36+!
KubeletPodResourcesListUseActivePods g36+!
-KubeletPSI g36+!
KubeletRegistrationGetOnExistsOnly d36-
-KubeletSeparateDiskGC b36+
KubeletServiceAccountTokenForCredentialProviders b36+
-KubeletTracing g36+!
KubeProxyIPVS d37+
KubeProxyNFTablesLocalhostNodePorts a37-
ListFromCacheSnapshot b36+
LoadBalancerIPMode g36+!
LocalStorageCapacityIsolationFSQuotaMonitoring b36-
LogarithmicScaleDown g31+! x37
LoggingAlphaOptions a36-
-LoggingBetaOptions b36+
-LoggingStableOptions g36+!
-ManifestBasedAdmissionControlConfig a36- b37+
MatchLabelKeysInPodAffinity g36+!
MatchLabelKeysInPodTopologySpread b36+
MatchLabelKeysInPodTopologySpreadSelectorMerge b36+
*MaxUnavailableStatefulSet b36- b37+
MemoryManager g36+!
MemoryQoS a36- b37+
MultiCIDRServiceAllocator g36+!
MutableCSINodeAllocatableCount g36+!
MutablePodResourcesForSuspendedJobs b36+
MutablePVNodeAffinity a36-
MutableSchedulingDirectivesForSuspendedJobs b36+
MutatingAdmissionPolicy g36+
-NativeHistograms a36- b37+
NFTablesNetlink b37+
NFTablesProxyMode g36+!
*NodeControllerLeaseCircuitBreaker b37+
NodeDeclaredFeatures b36+ g37+!
NodeInclusionPolicyInPodTopologySpread g36+!
NodeLifecycleConditions a37-
NodeLogQuery g36+!
NodeSwap g36+!
NominatedNodeNameForExpectation b36+
OpenAPIEnums b36+
OpportunisticBatching b36+
OrderedNamespaceDeletion g36+! x37
*PersistentVolumeClaimUnusedSinceTime a36- b37+
PLEGOnDemandRelist b36+ g37+!
PodAndContainerStatsFromCRI a36- b37-
PodCertificateRequest b36- g37+
PodDeletionCost b36+
PodGroupPreemptionPolicy a37-
PodLevelResourceManagers a36- b37-
PodLevelResources b36+
PodLevelResourcesFixDefaulting b37+
PodLevelResourcesFixKubeletQOSClass b37+
PodLifecycleSleepAction g36+! x37
PodLifecycleSleepActionAllowZero g36+! x37
PodLogsQuerySplitStreams a36-
PodObservedGenerationTracking g36+!
PodReadyToStartContainersCondition b36+ g37+!
-PodsAPI a36- b37+
PodSchedulingReadiness g36+!
PodTopologyLabelsAdmission b36+
PortForwardWebsockets b36+
PreferSameTrafficDistribution g36+!
PreventStaticPodAPIReferences b36+ x37
ProbeHostPodSecurityStandards g36+!
ProcMountType g36+!
QOSReserved a36-
RecoverVolumeExpansionFailure g36+!
RecursiveReadOnlyMounts g36+!
ReduceDefaultCrashLoopBackOffDecay a36-
RelaxedDNSSearchValidation g36+! x37
RelaxedEnvironmentVariableValidation g36+!
RelaxedServiceNameValidation b36+ g37+!
-ReloadKubeletClientCAFile b36+
-ReloadKubeletServerCertificateFile b36+
RemoteRequestHeaderUID b36+
ResilientWatchCacheInitialization g36+! x37
ResourceHealthStatus b36+
ResourceHealthStatusMessage b36+
RestartAllContainersOnContainerExits b36+
RetryGenerateName g36+! x37
RotateKubeletClientCertificate g36+!
RotateKubeletServerCertificate b36+
RuntimeClassInImageCriApi a36-
SchedulerAsyncAPICalls b36-
SchedulerAsyncPreemption b36+
SchedulerPopFromBackoffQ b36+
SchedulerPreQueueingHints a37-
SchedulerQueueingHints g36+! x37
SELinuxChangePolicy g36+!
SELinuxMount b36- g37+
SELinuxMountReadWriteOncePod g36+!
SeparateCacheWatchRPC d36-!
SeparateTaintEvictionController g36+!
ServiceAccountNodeAudienceRestriction b36+
ServiceAccountTokenJTI g36+!
ServiceAccountTokenNodeBinding g36+!
ServiceAccountTokenNodeBindingValidation g36+!
ServiceAccountTokenPodNodeInfo g36+!
ServiceTrafficDistribution g36+!
ShardedListAndWatch a36-
SidecarContainers g36+! x37
SizeBasedListCostEstimate b36+
StaleControllerConsistencyDaemonSet b36+
StaleControllerConsistencyHPA b37+
StaleControllerConsistencyJob b36+
StaleControllerConsistencyReplicaSet b36+
StaleControllerConsistencyStatefulSet b36+
StatefulSetAutoDeletePVC g36+!
StatefulSetRecreateStrategy a37-
StatefulSetSemanticRevisionComparison b36+
*StorageCapacityScoring a36- b37+
StorageVersionAPI a36-
StorageVersionHash b36+
StorageVersionMigrator b36- g37+
StreamingCollectionEncodingToJSON g36+! x37
StreamingCollectionEncodingToProtobuf g36+! x37
StrictCostEnforcementForVAP d36-
StrictCostEnforcementForWebhooks d36-
StrictIPCIDRValidation b36+
StructuredAuthenticationConfiguration g36+! x37
-StructuredAuthenticationConfigurationEgressSelector b36+
*StructuredAuthenticationConfigurationJWKSMetrics b36+
StructuredAuthorizationConfiguration g36+!
SupplementalGroupsPolicy g36+!
*SystemdWatchdog g36+!
TaintTolerationComparisonOperators a36-
TokenRequestServiceAccountUIDValidation b36+
TopologyAwareHints g36+!
TopologyAwareWorkloadScheduling a36-
TopologyManagerPolicyAlphaOptions a36-
TopologyManagerPolicyBetaOptions b36+
TopologyManagerPolicyOptions g36+!
TranslateStreamCloseWebsocketRequests b36+
UnauthenticatedHTTP2DOSMitigation b36+
-UnknownVersionInteroperabilityProxy b36+
UnlockWhileProcessingFIFO b36+
UserNamespacesHostNetworkSupport a36-
UserNamespacesSupport g36+!
ValidatingAdmissionPolicy g36+!
VolumeAttributesClass g36+!
VolumeBindMountOptions a37-
*VolumeLimitScaling a36- b37+
WatchCacheInitializationPostStartHook b36+ g37+!
WatchFromStorageWithoutResourceVersion g36+!
*WatchList b34+
WatchListClient b36+
-WatchListCompression b37+
WebhookRoundTripLoadBalancing b37+
WindowsCPUAndMemoryAffinity a36-
-WindowsGracefulNodeShutdown b36+
-WindowsHostNetwork g36+!
-WinDSR g36+!
-WinOverlay g36+!
WorkloadAwarePreemption a36- x37
WorkloadWithJob a36-
ZeroLimitedNominalConcurrencyShares g36+!
`
