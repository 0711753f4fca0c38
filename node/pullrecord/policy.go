package pullrecord

import (
	"fmt"
	"strings"
)

// The policies, by the kubelet's names (imagePullCredentialsVerificationPolicy): for which images on disk a pod must show that it may
// have them.
const (
	NeverVerify                  = "NeverVerify"
	NeverVerifyPreloadedImages   = "NeverVerifyPreloadedImages" // all but those that no pull of kloop's brought; the default
	NeverVerifyAllowlistedImages = "NeverVerifyAllowlistedImages"
	AlwaysVerify                 = "AlwaysVerify"
)

// A Policy says for which images that are there a pod needs credentials.
type Policy struct {
	Name    string
	Allowed []string // of NeverVerifyAllowlistedImages: names without tags, or with /* at the end all below
}

// NewPolicy reads a policy; "" is the default one.
func NewPolicy(name string, allowed []string) (Policy, error) {
	switch name {
	case "":
		name = NeverVerifyPreloadedImages
	case NeverVerify, NeverVerifyPreloadedImages, NeverVerifyAllowlistedImages, AlwaysVerify:
	default:
		return Policy{}, fmt.Errorf("imagePullCredentialsVerificationPolicy %q: use %s, %s, %s or %s", name, NeverVerify,
			NeverVerifyPreloadedImages, NeverVerifyAllowlistedImages, AlwaysVerify)
	}
	if (name == NeverVerifyAllowlistedImages) != (len(allowed) > 0) {
		return Policy{}, fmt.Errorf("preloadedImagesVerificationAllowlist and imagePullCredentialsVerificationPolicy %s need each other",
			NeverVerifyAllowlistedImages)
	}
	for _, a := range allowed {
		name, all := strings.CutSuffix(a, "/*")
		if name == "" || strings.ContainsAny(name, "*@") || !all && repository(name) != name {
			return Policy{}, fmt.Errorf("preloadedImagesVerificationAllowlist: %q is no whole name of an image without tag and digest, "+
				"as docker.io/library/nginx, nor the beginning of names, as docker.io/library/*", a)
		}
	}
	return Policy{name, allowed}, nil
}

// verifies says whether an image needs credentials that is there, and that was pulled or not.
func (p Policy) verifies(repository string, pulled bool) bool {
	switch p.Name {
	case NeverVerify:
		return false
	case AlwaysVerify:
		return true
	case NeverVerifyAllowlistedImages:
		return pulled || !p.allows(repository)
	}
	return pulled
}

func (p Policy) allows(repository string) bool {
	for _, a := range p.Allowed {
		if below, all := strings.CutSuffix(a, "*"); a == repository || all && strings.HasPrefix(repository, below) {
			return true
		}
	}
	return false
}
