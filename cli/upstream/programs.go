package upstream

import "strings"

// APIServer is kube-apiserver.
func APIServer() Program {
	return Program{Name: "kube-apiserver", Short: map[string]string{"v": "v"}, Switches: strings.Fields(`
		aggregator-reject-forwarding-redirect allow-privileged anonymous-auth audit-log-batch-throttle-enable audit-log-compress
		audit-log-truncate-enabled audit-webhook-batch-throttle-enable audit-webhook-truncate-enabled contention-profiling
		debug-socket-path-enabled emulation-forward-compatible enable-aggregator-routing enable-bootstrap-token-auth
		enable-garbage-collector enable-logs-handler enable-priority-and-fairness encryption-provider-config-automatic-reload
		log-json-info-buffer permit-address-sharing permit-port-sharing profiling runtime-config-emulation-forward-compatible
		service-account-extend-token-expiration service-account-lookup shutdown-send-retry-after strict-transport-security
		show-hidden-metrics version watch-cache`),
		Valued: strings.Fields(`
		admission-control-config-file advertise-address allow-metric-labels allow-metric-labels-manifest api-audiences
		audit-log-batch-buffer-size audit-log-batch-max-size audit-log-batch-max-wait audit-log-batch-throttle-burst
		audit-log-batch-throttle-qps audit-log-format audit-log-maxage audit-log-maxbackup audit-log-maxsize audit-log-mode
		audit-log-path audit-log-truncate-max-batch-size audit-log-truncate-max-event-size audit-log-version audit-policy-file
		audit-webhook-batch-buffer-size audit-webhook-batch-max-size audit-webhook-batch-max-wait audit-webhook-batch-throttle-burst
		audit-webhook-batch-throttle-qps audit-webhook-config-file audit-webhook-initial-backoff audit-webhook-mode
		audit-webhook-truncate-max-batch-size audit-webhook-truncate-max-event-size audit-webhook-version
		authentication-config authentication-token-webhook-cache-ttl authentication-token-webhook-config-file
		authentication-token-webhook-version authorization-config authorization-mode authorization-policy-file
		authorization-webhook-cache-authorized-ttl authorization-webhook-cache-unauthorized-ttl authorization-webhook-config-file
		authorization-webhook-version bind-address cert-dir client-ca-file coordinated-leadership-lease-duration
		coordinated-leadership-renew-deadline coordinated-leadership-retry-period cors-allowed-origins debug-socket-path
		default-not-ready-toleration-seconds default-unreachable-toleration-seconds default-watch-cache-size
		delete-collection-workers disable-admission-plugins disable-http2-serving disabled-metrics egress-selector-config-file
		emulated-version enable-admission-plugins encryption-provider-config endpoint-reconciler-type etcd-cafile etcd-certfile
		etcd-compaction-interval etcd-count-metric-poll-period etcd-db-metric-poll-interval etcd-healthcheck-timeout etcd-keyfile
		etcd-prefix etcd-readycheck-timeout etcd-servers etcd-servers-overrides event-ttl external-hostname feature-gates
		goaway-chance http2-max-streams-per-connection kubelet-certificate-authority kubelet-client-certificate kubelet-client-key
		kubelet-port kubelet-preferred-address-types kubelet-read-only-port kubelet-timeout kubernetes-service-node-port
		lease-reuse-duration-seconds livez-grace-period log-flush-frequency log-json-split-stream log-text-info-buffer-size
		log-text-split-stream logging-format max-connection-bytes-per-sec max-mutating-requests-inflight max-requests-inflight
		min-compatibility-version min-request-timeout oidc-ca-file oidc-client-id oidc-groups-claim oidc-groups-prefix oidc-issuer-url
		oidc-required-claim oidc-signing-algs oidc-username-claim oidc-username-prefix peer-advertise-ip peer-advertise-port
		peer-ca-file proxy-client-cert-file proxy-client-key-file request-timeout requestheader-allowed-names
		requestheader-client-ca-file requestheader-extra-headers-prefix requestheader-group-headers requestheader-uid-headers
		requestheader-username-headers runtime-config secure-port service-account-api-audiences service-account-issuer
		service-account-jwks-uri service-account-key-file service-account-max-token-expiration service-account-signing-endpoint
		service-account-signing-key-file service-cluster-ip-range service-node-port-range show-hidden-metrics-for-version
		shutdown-delay-duration shutdown-watch-termination-grace-period storage-backend storage-initialization-timeout
		storage-media-type strict-transport-security-directives tls-cert-file tls-cipher-suites tls-curve-preferences tls-min-version
		tls-private-key-file tls-sni-cert-key token-auth-file tracing-config-file v vmodule watch-cache-sizes`)}
}

// Etcd is etcd. Its own flags may also begin with one dash.
func Etcd() Program {
	return Program{Name: "etcd", Switches: strings.Fields(`
		auto-tls client-cert-auth debug enable-grpc-gateway enable-v2 force-new-cluster initial-election-tick-advance
		peer-auto-tls peer-client-cert-auth peer-skip-client-san-verification pre-vote socket-reuse-address socket-reuse-port
		strict-reconfig-check unsafe-no-fsync enable-log-rotation enable-distributed-tracing version`),
		Valued: strings.Fields(`
		advertise-client-urls auth-token auth-token-ttl auto-compaction-mode auto-compaction-retention backend-batch-interval
		backend-batch-limit backend-bbolt-freelist-type bcrypt-cost bootstrap-defrag-threshold-megabytes cert-file cipher-suites
		client-crl-file compact-hash-check-time compaction-batch-limit compaction-sleep-interval config-file cors data-dir
		discovery discovery-srv election-timeout experimental-compact-hash-check-enabled feature-gates grpc-keepalive-interval
		grpc-keepalive-min-time grpc-keepalive-timeout heartbeat-interval host-whitelist initial-advertise-peer-urls
		initial-cluster initial-cluster-state initial-cluster-token key-file listen-client-http-urls listen-client-urls
		listen-metrics-urls listen-peer-urls log-format log-level log-outputs log-package-levels logger max-concurrent-streams
		max-learners max-request-bytes max-snapshots max-txn-ops max-wals memory-mlock metrics name peer-cert-file
		peer-key-file peer-trusted-ca-file proxy quota-backend-bytes self-signed-cert-validity snapshot-catchup-entries
		snapshot-count tls-max-version tls-min-version trusted-ca-file v2-deprecation wal-dir warning-apply-duration
		watch-progress-notify-interval`)}
}
