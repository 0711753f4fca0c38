package core

// The names by which the use of tokens in Secrets is tracked (KEP-2799): the API server writes the first and the
// last two, the loop that cleans up the second.
const (
	LegacyTokenLastUsed     = "kubernetes.io/legacy-token-last-used"                 // label of a Secret: the day
	LegacyTokenInvalidSince = "kubernetes.io/legacy-token-invalid-since"             // label of a Secret: the day
	LegacyTokenTracking     = "kube-apiserver-legacy-service-account-token-tracking" // ConfigMap in kube-system
	LegacyTokenSince        = "since"                                                // its key: the day when the tracking began
)
