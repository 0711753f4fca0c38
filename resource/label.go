package resource

import utilvalidation "k8s.io/apimachinery/pkg/util/validation"

// IsLabel says that a name is a DNS label, and so a subdomain as well: most names are, and no regular expression needs to look at them.
func IsLabel(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-' && 0 < i && i < len(name)-1:
		default:
			return false
		}
	}
	return 0 < len(name) && len(name) <= utilvalidation.DNS1123LabelMaxLength
}
