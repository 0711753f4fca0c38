package admission

// PodSecurity mirrors upstream's PodSecurityConfiguration. The zero value lets everything in where namespaces don't
// say otherwise, and exempts nobody.
type PodSecurity struct {
	Defaults map[string]string // as labels of a namespace say it: pod-security.kubernetes.io/enforce and so on
	// Pods of these users, namespaces and runtime classes are exempt.
	Users, Namespaces, RuntimeClasses []string
}
