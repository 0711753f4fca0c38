package kinds_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// settled returns what would be stored of obj over old.
func settled[T resource.Object](k resource.Kind, sub string, obj, old T, isNew bool) T {
	obj.SetUID("u")
	k.SetDefaults(nil, obj)
	if isNew {
		k.PrepareForWrite(nil, sub, obj, nil)
	} else {
		k.PrepareForWrite(nil, sub, obj, old)
	}
	return obj
}

func TestTemplateGeneration(t *testing.T) {
	d := settled(kinds.DaemonSets, "", &appsv1.DaemonSet{}, nil, true)
	at := func() string { return d.Annotations[appsv1.DeprecatedTemplateGeneration] }
	if at() != "1" {
		t.Errorf("a new template is generation %q, want 1", at())
	}
	next := d.DeepCopy()
	next.Spec.Template.Labels = map[string]string{"a": "b"}
	delete(next.Annotations, appsv1.DeprecatedTemplateGeneration)
	d = settled(kinds.DaemonSets, "", next, d, false)
	if at() != "2" {
		t.Errorf("a changed template is generation %q, want 2", at())
	}
	next = d.DeepCopy()
	next.Spec.MinReadySeconds, next.Annotations[appsv1.DeprecatedTemplateGeneration] = 5, "9"
	if d = settled(kinds.DaemonSets, "", next, d, false); at() != "2" {
		t.Errorf("the same template is generation %q, want 2", at())
	}
	next = d.DeepCopy()
	next.Annotations = nil
	if kinds.DaemonSets.SetDefaults(nil, next); next.Annotations[appsv1.DeprecatedTemplateGeneration] != "0" {
		t.Errorf("who leaves it out sets %v, which is no change", next.Annotations) // and owns it
	}
	next.Annotations = nil
	if d = settled(kinds.DaemonSets, "status", next, d, false); at() != "2" {
		t.Errorf("after a write of the status it is generation %q, want 2", at())
	}
}

// Where a kind looks at no names, what they begin with need not be one itself.
func TestBeginningsOfNames(t *testing.T) {
	for _, k := range []resource.Kind{kinds.PodDisruptionBudgets, kinds.CertificateSigningRequests, kinds.Events, kinds.Roles} {
		says, checked := resource.CheckName(k, ".", true), k == resource.Kind(kinds.Roles)
		if (len(says) > 0) != checked || len(resource.CheckName(k, ".", false)) == 0 || len(resource.CheckName(k, "a/", true)) == 0 {
			t.Errorf("%s: %q", k.Info().Plural, says)
		}
	}
}

// A write of a claim's status neither changes nor owns its metadata.
func TestStatusOfClaims(t *testing.T) {
	for _, s := range kinds.ResourceClaims.Info().Subs {
		if s.Name == "status" && !slices.Contains(s.Resets, "metadata") {
			t.Errorf("owns all but %v", s.Resets)
		}
	}
	old, next := &resourcev1.ResourceClaim{}, &resourcev1.ResourceClaim{}
	next.Labels = map[string]string{"a": "b"}
	if got := settled(kinds.ResourceClaims, "status", next, old, false); got.Labels != nil {
		t.Errorf("labels %v", got.Labels)
	}
}

func TestJobSelector(t *testing.T) {
	j := settled(kinds.Jobs, "", &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j"}}, nil, true)
	if got := metav1.FormatLabelSelector(j.Spec.Selector); got != "batch.kubernetes.io/controller-uid=u" {
		t.Errorf("selector %q", got)
	}
	if len(j.Spec.Template.Labels) != 4 || len(j.Labels) != 4 {
		t.Errorf("labels %v, of the template %v", j.Labels, j.Spec.Template.Labels)
	}
	j.Labels["x"] = "y"
	if j.Spec.Template.Labels["x"] != "" {
		t.Error("job and template share their labels")
	}
	own := settled(kinds.Jobs, "", &batchv1.Job{Spec: batchv1.JobSpec{ManualSelector: new(true)}}, nil, true)
	if own.Spec.Selector != nil || own.Spec.Template.Labels != nil {
		t.Error("a job with a manual selector got one")
	}
}

func TestGenerations(t *testing.T) {
	old := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Generation: 3}}
	s := settled(kinds.EndpointSlices, "", &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Generation: 3,
		Labels: map[string]string{"a": "b"}}, Endpoints: []discoveryv1.Endpoint{}}, old, false)
	if s.Generation != 4 || s.Endpoints != nil {
		t.Errorf("generation %d, endpoints %v", s.Generation, s.Endpoints)
	}
	was := settled(kinds.CSIDrivers, "", &storagev1.CSIDriver{}, nil, true)
	d := was.DeepCopy()
	d.Spec.TokenRequests = []storagev1.TokenRequest{{Audience: "a"}}
	if d = settled(kinds.CSIDrivers, "", d, was, false); d.Generation != 1 {
		t.Errorf("generation %d after new token requests, want 1", d.Generation)
	}
	more := d.DeepCopy()
	more.Spec.PodInfoOnMount = new(true)
	if more = settled(kinds.CSIDrivers, "", more, d, false); more.Generation != 2 {
		t.Errorf("generation %d after a change of whether drivers hear of pods, want 2", more.Generation)
	}
}

func TestStoredVersions(t *testing.T) {
	def := func(storing string) *apiextensionsv1.CustomResourceDefinition {
		c := &apiextensionsv1.CustomResourceDefinition{}
		for _, v := range []string{"v1", "v2"} {
			c.Spec.Versions = append(c.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: v, Storage: v == storing})
		}
		c.Spec.Names.Kind = "Thing"
		return c
	}
	old := settled(kinds.CustomResourceDefinitions, "", def("v1"), nil, true)
	c := settled(kinds.CustomResourceDefinitions, "", def("v2"), old, false)
	if len(old.Status.StoredVersions) != 1 || len(c.Status.StoredVersions) != 2 || c.Status.StoredVersions[1] != "v2" {
		t.Errorf("stored versions %v, then %v", old.Status.StoredVersions, c.Status.StoredVersions)
	}
	if n := c.Spec.Names; n.Singular != "thing" || n.ListKind != "ThingList" {
		t.Errorf("names %+v", n)
	}
}

func TestLocalServicesAreAvailable(t *testing.T) {
	a := settled(kinds.APIServices, "", &apiregistrationv1.APIService{}, nil, true)
	if len(a.Status.Conditions) != 1 || kinds.APIServices.Rows(nil, nil)(a)[2] != "True" {
		t.Errorf("conditions %v", a.Status.Conditions)
	}
	other := &apiregistrationv1.APIService{Spec: apiregistrationv1.APIServiceSpec{Service: &apiregistrationv1.ServiceReference{}}}
	if other = settled(kinds.APIServices, "", other, nil, true); len(other.Status.Conditions) != 0 || *other.Spec.Service.Port != 443 {
		t.Errorf("%+v", other)
	}
}

func TestScale(t *testing.T) {
	d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: new(int32(3)), Selector: &metav1.LabelSelector{
		MatchLabels: map[string]string{"a": "b"}}}, Status: appsv1.DeploymentStatus{Replicas: 2}}
	if s, ok := resource.ScaleOf(kinds.Deployments, d); !ok || s != (resource.Scale{Replicas: 3, Current: 2, Selector: "a=b"}) {
		t.Errorf("scale %+v", s)
	}
	if kinds.Deployments.Scaled().Set(d, 7); *d.Spec.Replicas != 7 {
		t.Errorf("replicas %d after scaling to 7", *d.Spec.Replicas)
	}
	if s, _ := resource.ScaleOf(kinds.StatefulSets, &appsv1.StatefulSet{}); s != (resource.Scale{}) {
		t.Errorf("scale of nothing %+v", s)
	}
	if s, _ := resource.ScaleOf(kinds.ReplicaSets, &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Odd"}}}}}); s.Selector != "" {
		t.Errorf("selector %q of a bad one", s.Selector)
	}
}

// Fields of features that are off are dropped, unless the stored object has them already.
func TestAlphaFields(t *testing.T) {
	slice := func(n ...int64) *resourcev1.ResourceSlice {
		return &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Devices: []resourcev1.Device{{Name: "d",
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"a": {IntValues: n}}}}}}
	}
	count := func(s *resourcev1.ResourceSlice) int { return len(s.Spec.Devices[0].Attributes["a"].IntValues) }
	if s := settled(kinds.ResourceSlices, "", slice(1), nil, true); count(s) != 0 {
		t.Error("a new slice kept them")
	}
	if s := settled(kinds.ResourceSlices, "", slice(1), slice(), false); count(s) != 0 {
		t.Error("an old slice got them")
	}
	if s := settled(kinds.ResourceSlices, "", slice(1, 2), slice(1), false); count(s) != 2 {
		t.Error("a slice with them lost them")
	}
}

// What 1.36 has off is dropped there, and has no default.
func TestMissingDriver(t *testing.T) {
	older, err := features.New(36, nil)
	if err != nil {
		t.Fatal(err)
	}
	driver := func(prevent *bool) *storagev1.CSIDriver {
		return &storagev1.CSIDriver{Spec: storagev1.CSIDriverSpec{PreventPodSchedulingIfMissing: prevent}}
	}
	for _, c := range []struct {
		name      string
		on        *features.Set
		sent, old *storagev1.CSIDriver
		want      *bool
	}{
		{"default", nil, driver(nil), nil, new(false)},
		{"changed", nil, driver(new(true)), driver(nil), new(true)},
		{"no default in 1.36", older, driver(nil), nil, nil},
		{"dropped in 1.36", older, driver(new(true)), nil, nil},
		{"dropped from an update in 1.36", older, driver(new(true)), driver(nil), nil},
		{"kept in 1.36 once it is set", older, driver(new(true)), driver(new(false)), new(true)},
	} {
		t.Run(c.name, func(t *testing.T) {
			obj, old := resource.Object(c.sent), resource.Object(nil)
			if c.old != nil {
				old = c.old
			}
			kinds.CSIDrivers.SetDefaults(c.on, obj)
			kinds.CSIDrivers.PrepareForWrite(c.on, "", obj, old)
			if got := c.sent.Spec.PreventPodSchedulingIfMissing; (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
				t.Errorf("1.%d: %v, want %v", c.on.Minor(), got, c.want)
			}
		})
	}
}

func request(t *testing.T) (csr, cert []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	name := pkix.Name{CommonName: "x"}
	req, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: name}, key)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: name, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: req}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// The life of a request: asked, approved, issued; then nothing may be taken back.
func TestCertificates(t *testing.T) {
	csr, cert := request(t)
	k := kinds.CertificateSigningRequests
	r := settled(k, "", &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{Request: csr,
		SignerName: "a.example/b", Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth}}}, nil, true)
	if errs := k.Check(nil, nil, "", r, nil); len(errs) > 0 {
		t.Fatal(errs)
	}
	approved := r.DeepCopy()
	approved.Spec.SignerName = "z.example/z"
	approved.Status.Certificate = cert
	approved.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved,
		Status: corev1.ConditionTrue}}
	approved = settled(k, "approval", approved, r, false)
	if errs := k.Check(nil, nil, "approval", approved, r); len(errs) > 0 {
		t.Fatal(errs)
	}
	if c := approved.Status.Conditions[0]; c.LastUpdateTime.IsZero() || c.LastTransitionTime.IsZero() ||
		approved.Spec.SignerName != "a.example/b" || approved.Status.Certificate != nil {
		t.Errorf("approved: %+v", approved)
	}
	issued := approved.DeepCopy()
	issued.Status.Certificate = cert
	issued = settled(k, "status", issued, approved, false)
	if errs := k.Check(nil, nil, "status", issued, approved); len(errs) > 0 {
		t.Fatal(errs)
	}
	back := issued.DeepCopy()
	back.Status.Conditions, back.Status.Certificate = nil, append(cert, cert...)
	if got := said(k.Check(nil, nil, "status", back, issued)); len(got) != 2 {
		t.Errorf("taking all back: %v", got)
	}
	bundle := &certificatesv1.ClusterTrustBundle{Spec: certificatesv1.ClusterTrustBundleSpec{TrustBundle: string(cert)}}
	if errs := kinds.ClusterTrustBundles.Check(nil, nil, "", bundle, nil); len(errs) > 0 {
		t.Error(errs)
	}
	bundle.Spec.TrustBundle += bundle.Spec.TrustBundle
	if errs := kinds.ClusterTrustBundles.Check(nil, nil, "", bundle, nil); len(errs) != 1 {
		t.Errorf("the same anchor twice: %v", errs)
	}
}

func TestNameOfNamelessLimitRange(t *testing.T) {
	if l := settled(kinds.LimitRanges, "", &corev1.LimitRange{}, nil, true); l.Name != "u" {
		t.Errorf("called %q", l.Name)
	}
}

func TestBalancerStatusGoesWithTheType(t *testing.T) {
	old := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
	old.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "198.51.100.3"}}
	kept := settled(kinds.Services, "", old.DeepCopy(), old, false)
	next := old.DeepCopy()
	next.Spec.Type = corev1.ServiceTypeNodePort
	gone := settled(kinds.Services, "", next, old, false)
	if len(kept.Status.LoadBalancer.Ingress) != 1 || len(gone.Status.LoadBalancer.Ingress) != 0 {
		t.Errorf("kept %v, gone %v", kept.Status, gone.Status)
	}
}

func TestSayingEmptyIsAChangeOfWebhooks(t *testing.T) {
	old := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
	said := old.DeepCopy()
	said.Webhooks = []admissionregistrationv1.MutatingWebhook{}
	if g := settled(kinds.MutatingWebhookConfigurations, "", said, old, false).Generation; g != 2 {
		t.Errorf("generation %d after saying that there are none", g)
	}
	if g := settled(kinds.MutatingWebhookConfigurations, "", old.DeepCopy(), old, false).Generation; g != 1 {
		t.Errorf("generation %d after nothing", g)
	}
}

func TestCSINodeShowsNoEmptyStatus(t *testing.T) {
	n := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	doc, err := codec.MarshalJSON(n)
	if err != nil || strings.Contains(string(doc), "status") || !json.Valid(doc) {
		t.Errorf("%s, %v", doc, err)
	}
	n.Status.StorageHealth = []storagev1.StorageHealth{{Name: "d"}}
	if doc, err = codec.MarshalJSON(n); err != nil || !strings.Contains(string(doc), "storageHealth") || !json.Valid(doc) {
		t.Errorf("%s, %v", doc, err)
	}
}

func TestTimeOfATaint(t *testing.T) {
	added := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	rule := func(effect resourcev1.DeviceTaintEffect, at metav1.Time) *resourcev1.DeviceTaintRule {
		return &resourcev1.DeviceTaintRule{Spec: resourcev1.DeviceTaintRuleSpec{Taint: resourcev1.DeviceTaint{Key: "k", Effect: effect,
			TimeAdded: &at}}}
	}
	old := rule(resourcev1.DeviceTaintEffectNoSchedule, added)
	for _, c := range []struct {
		name string
		now  *resourcev1.DeviceTaintRule
		kept bool
	}{
		{"unchanged", rule(resourcev1.DeviceTaintEffectNoSchedule, added), true},
		{"another effect", rule(resourcev1.DeviceTaintEffectNoExecute, added), false},
		{"another effect and time", rule(resourcev1.DeviceTaintEffectNoExecute, metav1.NewTime(added.Add(-time.Hour))), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			was := *c.now.Spec.Taint.TimeAdded
			if got := settled(kinds.DeviceTaintRules, "", c.now, old, false); got.Spec.Taint.TimeAdded.Equal(&was) != c.kept {
				t.Errorf("%s was added at %s", got.Spec.Taint.Effect, got.Spec.Taint.TimeAdded)
			}
		})
	}
}

func TestConditionsOfPodCertificateRequests(t *testing.T) {
	denied := func(reason string, at metav1.Time) *certificatesv1.PodCertificateRequest {
		return &certificatesv1.PodCertificateRequest{Status: certificatesv1.PodCertificateRequestStatus{Conditions: []metav1.Condition{
			{Type: certificatesv1.PodCertificateRequestConditionTypeDenied, Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: at}}}}
	}
	first := settled(kinds.PodCertificateRequests, "status", denied("A", metav1.Time{}), &certificatesv1.PodCertificateRequest{}, false)
	if first.Status.Conditions[0].LastTransitionTime.IsZero() {
		t.Error("a condition has no time")
	}
	again := settled(kinds.PodCertificateRequests, "status", denied("B", metav1.Now()), first, false)
	if got := again.Status.Conditions[0]; got != first.Status.Conditions[0] {
		t.Errorf("the condition became %v", got)
	}
}

func TestWarningOfTheOldIngressClass(t *testing.T) {
	class := "a"
	i := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"kubernetes.io/ingress.class": class}}}
	if got := kinds.Ingresses.Warnings(nil, i, nil); len(got) != 1 {
		t.Errorf("warnings of a new one %q", got)
	}
	if got := kinds.Ingresses.Warnings(nil, i, i); len(got) != 0 {
		t.Errorf("warnings of a change %q", got)
	}
	both := i.DeepCopy()
	both.Spec.IngressClassName = &class
	if got := kinds.Ingresses.Warnings(nil, both, nil); len(got) != 0 {
		t.Errorf("warnings of a class named in both ways %q", got)
	}
}

func TestStatusOfDevicesGoesWithThem(t *testing.T) {
	claim := func(allocated ...string) *resourcev1.ResourceClaim {
		c := &resourcev1.ResourceClaim{}
		c.Status.Allocation = &resourcev1.AllocationResult{}
		for _, name := range allocated {
			c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, resourcev1.DeviceRequestAllocationResult{Device: name})
		}
		c.Status.Devices = []resourcev1.AllocatedDeviceStatus{{Device: "a"}, {Device: "b"}, {Device: "c"}}
		return c
	}
	got := settled(kinds.ResourceClaims, "status", claim("b"), claim("a", "b"), false)
	if list := got.Status.Devices; len(list) != 2 || list[0].Device != "b" || list[1].Device != "c" {
		t.Errorf("devices %v", list)
	}
	slice := &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Driver: "A.example"}}
	if list := kinds.ResourceSlices.Warnings(nil, slice, slice); len(list) != 1 {
		t.Errorf("warnings of a driver in upper case %q", list)
	}
}

func TestReservedNames(t *testing.T) {
	older, err := features.New(36, nil)
	if err != nil {
		t.Fatal(err)
	}
	meta := metav1.ObjectMeta{Name: "a.static.k8s.io"}
	for _, c := range []struct {
		kind resource.Kind
		obj  resource.Object
	}{
		{kinds.ValidatingWebhookConfigurations, &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta}},
		{kinds.MutatingWebhookConfigurations, &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta}},
		{kinds.ValidatingAdmissionPolicies, &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: meta}},
		{kinds.MutatingAdmissionPolicies, &admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: meta}},
		{kinds.ValidatingAdmissionPolicyBindings, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta}},
		{kinds.MutatingAdmissionPolicyBindings, &admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: meta}},
	} {
		t.Run(c.kind.Info().Plural, func(t *testing.T) {
			refused := func(old resource.Object) (n int) {
				for _, err := range c.kind.Check(nil, nil, "", c.obj, old) {
					if err.Field == "metadata.name" {
						n++
					}
				}
				return n
			}
			if refused(nil) != 1 || refused(c.obj) != 0 {
				t.Errorf("%s: refused %d when new, %d when not", c.kind.Info().Plural, refused(nil), refused(c.obj))
			}
			if n, o := len(c.kind.Warnings(nil, c.obj, nil)), len(c.kind.Warnings(nil, c.obj, c.obj)); n != 0 || o != 1 {
				t.Errorf("%s: %d warnings when new, %d when not", c.kind.Info().Plural, n, o)
			}
			errs := c.kind.Check(older, nil, "", c.obj, nil)
			if n := len(c.kind.Warnings(older, c.obj, nil)); n != 1 ||
				slices.ContainsFunc(errs, func(e *field.Error) bool { return e.Field == "metadata.name" }) {
				t.Errorf("%s in 1.36: %d warnings, errors %v", c.kind.Info().Plural, n, errs)
			}
		})
	}
}

// TestObservedGenerations keeps what a definition's status says of generations, unless that feature is off and it said nothing before.
func TestObservedGenerations(t *testing.T) {
	off, err := features.New(features.Newest, map[string]bool{"CRDObservedGenerationTracking": false})
	if err != nil {
		t.Fatal(err)
	}
	def := func(n int64) *apiextensionsv1.CustomResourceDefinition {
		return &apiextensionsv1.CustomResourceDefinition{Status: apiextensionsv1.CustomResourceDefinitionStatus{ObservedGeneration: n,
			Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{{Type: "X", ObservedGeneration: n}}}}
	}
	for _, c := range []struct {
		on       *features.Set
		old, now int64
		want     int64
	}{{nil, 0, 3, 3}, {off, 0, 3, 0}, {off, 2, 3, 3}, {nil, 2, 0, 0}} {
		obj := def(c.now)
		kinds.CustomResourceDefinitions.PrepareForWrite(c.on, "status", obj, def(c.old))
		if s := obj.Status; s.ObservedGeneration != c.want || s.Conditions[0].ObservedGeneration != c.want {
			t.Errorf("%d after %d, feature %t: %+v", c.now, c.old, c.on.On("CRDObservedGenerationTracking"), s)
		}
	}
}
