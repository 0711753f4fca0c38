package httpapi

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
)

// The refusal of a body of another type speaks of the types of upstream's scheme: which it knows, and their names in Go.

// The groups with a scheme of their own. It knows nothing of the others.
var ownSchemes = []string{apiextensions, "apiregistration.k8s.io"}

// readVersions are those that upstream's scheme still knows and no server serves any more.
var readVersions = []string{"admissionregistration.k8s.io/v1alpha1", "apiextensions.k8s.io/v1beta1", "apiregistration.k8s.io/v1beta1",
	"apps/v1beta1", "apps/v1beta2", "batch/v1beta1", "coordination.k8s.io/v1beta1", "discovery.k8s.io/v1beta1", "events.k8s.io/v1beta1",
	"flowcontrol.apiserver.k8s.io/v1beta1", "flowcontrol.apiserver.k8s.io/v1beta2", "flowcontrol.apiserver.k8s.io/v1beta3",
	"networking.k8s.io/v1beta1", "node.k8s.io/v1alpha1", "node.k8s.io/v1beta1", "policy/v1beta1", "rbac.authorization.k8s.io/v1alpha1",
	"rbac.authorization.k8s.io/v1beta1", "scheduling.k8s.io/v1beta1", "storage.k8s.io/v1alpha1", "storage.k8s.io/v1beta1"}

// metaKinds are in every version of every group.
var metaKinds = []string{"CreateOptions", "DeleteOptions", "GetOptions", "ListOptions", "PatchOptions", "UpdateOptions", "WatchEvent"}

// coreKinds are in v1 and are no resources.
var coreKinds = []string{"APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "List", "PodStatusResult", "RangeAllocation",
	"SerializedReference", "Status"}

// expected is the type that a body is to be of.
type expected struct {
	want   schema.GroupVersionKind
	custom bool          // users defined it
	group  string        // of the path
	kinds  *resource.Set // that are served here
	cfg    *Config
}

func expects(c *request, want schema.GroupVersionKind) expected {
	return expected{want: want, custom: c.facts.Custom, group: c.gvk.Group, kinds: c.s.cfg.Kinds, cfg: &c.s.cfg}
}

// registered tells whether the scheme that reads bodies of the path's group knows the type.
func (x expected) registered(gvk schema.GroupVersionKind) bool {
	for _, group := range ownSchemes {
		if (x.group == group) != (gvk.Group == group) {
			return false
		}
	}
	group, item := gvk.Group, strings.TrimSuffix(gvk.Kind, "List")
	old := slices.Contains(readVersions, gvk.GroupVersion().String())
	switch {
	case x.cfg.body(gvk) != nil:
		return true
	case gvk.GroupVersion() == corev1.SchemeGroupVersion && slices.Contains(coreKinds, gvk.Kind):
		return true
	case gvk.GroupVersion().String() == "extensions/v1beta1": // most of its kinds went to apps
		group, old = "apps", !slices.Contains([]string{"ControllerRevision", "StatefulSet"}, item)
	}
	for _, k := range x.kinds.All() {
		i := k.Info()
		for _, served := range i.Served() {
			switch {
			case i.Custom || served.Group != group:
			case served.GroupVersion() == gvk.GroupVersion() && slices.Contains(metaKinds, gvk.Kind):
				return true
			case served.Kind == item && (old || served.Version == gvk.Version):
				return true
			}
		}
	}
	return false
}

// optionKinds are the types that upstream's scheme for options knows, by version.
var optionKinds = map[string][]string{
	"v1": {"APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "Status"},
	"meta.k8s.io/v1": {"CreateOptions", "GetOptions", "ListOptions", "PartialObjectMetadata", "PartialObjectMetadataList", "PatchOptions",
		"Table", "TableOptions", "UpdateOptions", "WatchEvent"},
}

// optionsKind refuses what claims to be something other than the options of a deletion. Their version may be any.
func optionsKind(o *metav1.DeleteOptions) error {
	version := cmp.Or(o.APIVersion, metav1.SchemeGroupVersion.String())
	switch {
	case o.Kind == "" || o.Kind == "DeleteOptions":
		return nil
	case slices.Contains(optionKinds[version], o.Kind):
		return apierrors.NewBadRequest(fmt.Sprintf("converting (v1.%s) to (v1.DeleteOptions): unknown conversion", o.Kind))
	}
	return apierrors.NewBadRequest(fmt.Sprintf("no kind %q is registered for version %q in scheme %q", o.Kind, version, server.SchemeAt))
}

// wrongKind refuses a body by the type that it claims to be of.
func (x expected) wrongKind(got schema.GroupVersionKind) error {
	cannot := func(format string, args ...any) error {
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: ", got.Kind, got.Version, x.want.Kind) +
			fmt.Sprintf(format, args...))
	}
	switch {
	case x.custom:
	case !x.registered(got):
		return cannot("no kind %q is registered for version %q in scheme %q", got.Kind, got.GroupVersion(), server.SchemeAt)
	case got.Kind != x.want.Kind:
		return cannot("converting (%s.%s) to (%s): unknown conversion", got.Version, got.Kind, inScheme(x.want.Group, x.want.Kind))
	}
	return apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)",
		got.GroupVersion(), x.want.GroupVersion()))
}

// inScheme is the Go type, in upstream's memory, of a kind or of its list.
func inScheme(group, kind string) string {
	group, _, _ = strings.Cut(group, ".")
	switch group {
	case "", "events":
		group = "core"
	case "internal":
		group = "apiserverinternal"
	}
	return group + "." + kind
}

// typeName is inScheme for the objects of a kind that users may have defined.
func typeName(facts *resource.Info, kind string) string {
	if facts.Custom {
		return "*unstructured.UnstructuredList"
	}
	return "*" + inScheme(facts.GVK.Group, kind)
}
