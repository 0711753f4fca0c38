package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/test/need"
)

// fake is a cluster of a few objects: some only the server knows, the rest are in the snapshot too.
type fake struct {
	client.Client
	resource.Reader
	seen, server map[string]resource.Object
	tokens       int
	asked        *authenticationv1.TokenRequest
	life         time.Duration
	refuse       error
	asks         []*certificatesv1.PodCertificateRequest
}

func key(k resource.Kind, ns, name string) string { return k.Info().Plural + "/" + ns + "/" + name }

func (f *fake) Read() resource.Reader { return f }

func (f *fake) Lookup(k resource.Kind, ns, name string) resource.Object {
	return f.seen[key(k, ns, name)]
}

func (f *fake) Get(_ context.Context, k resource.Kind, ns, name string) (resource.Object, error) {
	if o := f.server[key(k, ns, name)]; o != nil {
		return o, nil
	}
	return nil, apierrors.NewNotFound(k.Info().GR(), name)
}

func (f *fake) Update(_ context.Context, k resource.Kind, o resource.Object, _ string) (resource.Object, error) {
	f.server[key(k, o.GetNamespace(), o.GetName())] = o
	return o, nil
}

func (f *fake) Call(_ context.Context, k resource.Kind, ns, name, sub string, in resource.Object) (resource.Object, error) {
	if f.refuse != nil {
		return nil, f.refuse
	}
	f.tokens++
	tr := in.(*authenticationv1.TokenRequest)
	f.asked = tr
	out := tr.DeepCopy()
	out.Status.Token = fmt.Sprintf("%s/%s/%s %d", ns, name, sub, f.tokens)
	life := f.life
	if life == 0 {
		life = time.Duration(*tr.Spec.ExpirationSeconds) * time.Second
	}
	out.Status.ExpirationTimestamp = metav1.NewTime(time.Now().Add(life))
	return out, nil
}

func cluster() *fake {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "conf"}, Data: map[string]string{"a": "1", "b": "2"},
		BinaryData: map[string][]byte{"c": {0, 1}}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "pass"}, Data: map[string][]byte{"word": []byte("sesame")}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	node.Status.Allocatable = corev1.ResourceList{"cpu": apiresource.MustParse("3500m"), "memory": apiresource.MustParse("4Gi")}
	return &fake{seen: map[string]resource.Object{"configmaps/ns/conf": cm, "nodes//n1": node},
		server: map[string]resource.Object{"secrets/ns/pass": secret}}
}

// pod is a pod of the given spec as YAML.
func pod(t *testing.T, spec string) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u1",
		Labels: map[string]string{"app": "web", "a": `q"q`}, Annotations: map[string]string{"note": "two\nlines"}}}
	if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
		t.Fatal(err)
	}
	all := corev1.Container{Name: "all"} // has what no other has
	for _, v := range p.Spec.Volumes {
		if !used(p, v.Name) {
			all.VolumeMounts = append(all.VolumeMounts, corev1.VolumeMount{Name: v.Name})
		}
	}
	p.Spec.Containers = append(p.Spec.Containers, all)
	return p
}

// TestUnused: a volume that no container has is not made, whatever is the matter with it. A debugging container may have it later.
func TestUnused(t *testing.T) {
	p := pod(t, `{volumes: [{name: v, emptyDir: {}}]}`)
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "unused", VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: "none"}}})
	m := mounter(t, cluster())
	if paths, err := m.Prepare(t.Context(), p); err != nil || len(paths) != 1 || paths["v"] == "" {
		t.Errorf("%v, %v", paths, err)
	}
	p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		VolumeMounts: []corev1.VolumeMount{{Name: "unused"}}}}}
	if _, err := m.Prepare(t.Context(), p); err == nil {
		t.Error("a missing secret of a debugging container is not told")
	}
}

func mounter(t *testing.T, c client.Client) *Mounter {
	t.Helper()
	m := New(Config{Dir: t.TempDir(), Client: c, Node: "n1"})
	t.Cleanup(func() {
		for _, uid := range m.Orphans() {
			if err := m.Remove(context.Background(), uid); err != nil {
				t.Error(err)
			}
		}
	})
	return m
}

func needRoot(t *testing.T) {
	t.Helper()
	need.BeRoot(t)
}

// tree lists the files of a volume as a container sees them: mode and content by path.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	var walk func(at string)
	walk = func(at string) {
		entries, err := os.ReadDir(filepath.Join(dir, at))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			name := filepath.Join(at, e.Name())
			if strings.HasPrefix(e.Name(), "..") {
				continue
			}
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if info.IsDir() {
				walk(name)
				continue
			}
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			got[name] = fmt.Sprintf("%o %s", info.Mode().Perm(), text)
		}
	}
	walk("")
	return got
}

// TestLimit shows a container's limit, or its pod's; else the node's stands in, but for huge pages.
func TestLimit(t *testing.T) {
	p := pod(t, `{resources: {limits: {cpu: 2, memory: 3Mi}}, containers: [{name: c, resources: {limits: {cpu: 1, memory: 0}}}]}`)
	for res, want := range map[corev1.ResourceName]string{"cpu": "1 true", "memory": "3Mi true", "ephemeral-storage": "0 false",
		"hugepages-2Mi": "0 true"} {
		q, set := Limit(p, &p.Spec.Containers[0], res)
		if got := fmt.Sprint(q.String(), " ", set); got != want {
			t.Errorf("%s: %s, want %s", res, got, want)
		}
	}
}

func TestContent(t *testing.T) {
	needRoot(t)
	for _, tt := range []struct {
		name, volume string
		want         map[string]string
	}{
		{"configMap", `configMap: {name: conf}`, map[string]string{"a": "644 1", "b": "644 2", "c": "644 \x00\x01"}},
		{"items", `configMap: {name: conf, defaultMode: 0400, items: [{key: a, path: x/y/z}, {key: b, path: w, mode: 0755}]}`,
			map[string]string{"x/y/z": "400 1", "w": "755 2"}},
		{"secret that only the server has", `secret: {secretName: pass, defaultMode: 0440}`, map[string]string{"word": "440 sesame"}},
		{"optional", `configMap: {name: none, optional: true}`, map[string]string{}},
		{"optional key", `secret: {secretName: pass, optional: true, items: [{key: nope, path: x}]}`, map[string]string{}},
		{"downwardAPI", `downwardAPI: {items: [
			{path: labels, fieldRef: {fieldPath: metadata.labels}}, {path: one, fieldRef: {fieldPath: "metadata.labels['app']"}},
			{path: notes, fieldRef: {fieldPath: metadata.annotations}}, {path: who/name, mode: 0600, fieldRef: {fieldPath: metadata.name}},
			{path: cpu, resourceFieldRef: {containerName: c, resource: limits.cpu}},
			{path: milli, resourceFieldRef: {containerName: c, resource: requests.cpu, divisor: 1m}},
			{path: mem, resourceFieldRef: {containerName: c, resource: limits.memory, divisor: 1Mi}},
			{path: small, resourceFieldRef: {containerName: c, resource: requests.memory, divisor: 1Gi}}]}`,
			map[string]string{"labels": "644 a=\"q\\\"q\"\napp=\"web\"", "one": "644 web", "notes": `644 note="two\nlines"`,
				"who/name": "600 web", "cpu": "644 4", "milli": "644 250", "mem": "644 4096", "small": "644 1"}},
		{"projected", `projected: {defaultMode: 0640, sources: [{configMap: {name: conf, items: [{key: a, path: a}]}},
			{secret: {name: pass, items: [{key: word, path: sub/word, mode: 0600}]}},
			  {serviceAccountToken: {path: token, audience: them, expirationSeconds: 600}},
			{downwardAPI: {items: [{path: ns, fieldRef: {fieldPath: metadata.namespace}}]}}]}`,
			map[string]string{"a": "640 1", "sub/word": "600 sesame", "token": "640 ns/robot/token 1", "ns": "640 ns"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := cluster()
			m := mounter(t, c)
			p := pod(t,
				`{serviceAccountName: robot, containers: [{name: c, resources: {requests: {cpu: 250m, memory: 1Mi}}}], volumes: [{name: v, `+
					tt.volume+`}]}`)
			for range 2 { // again changes nothing
				paths, err := m.Prepare(t.Context(), p)
				if err != nil {
					t.Fatal(err)
				}
				if got := tree(t, paths["v"]); !maps.Equal(got, tt.want) {
					t.Errorf("got %q\nwant %q", got, tt.want)
				}
			}
			if tt.name == "projected" {
				checkToken(t, c)
			}
		})
	}
}

func checkToken(t *testing.T, c *fake) {
	t.Helper()
	spec := c.asked.Spec
	if c.tokens != 1 || *spec.ExpirationSeconds != 600 || !slices.Equal(spec.Audiences, []string{"them"}) {
		t.Errorf("%d tokens, asked for %+v", c.tokens, spec)
	}
	if ref := spec.BoundObjectRef; ref == nil || ref.Kind != "Pod" || ref.APIVersion != "v1" || ref.Name != "web" || ref.UID != "u1" {
		t.Errorf("bound to %+v", ref)
	}
}

func TestErrors(t *testing.T) {
	needRoot(t)
	for volume, want := range map[string]string{
		`configMap: {name: yy}`:                                  `MountVolume.SetUp failed for volume "x" : configmap "yy" not found`,
		`secret: {secretName: yy}`:                               `secret "yy" not found`,
		`configMap: {name: conf, items: [{key: k, path: p}]}`:    "configmap references non-existent config key: k",
		`secret: {secretName: pass, items: [{key: k, path: p}]}`: "references non-existent secret key: k",
		`projected: {sources: [{configMap: {name: yy}}]}`:        `configmap "yy" not found`,
		`csi: {driver: d}`: `"x" : kubernetes.io/csi: mounter.SetUpAt failed to get CSI client: driver name d not found in the list of ` +
			"registered CSI drivers",
		`projected: {sources: [{configMap: {name: yy}}, {secret: {name: zz}}]}`: `"x" : [configmap "yy" not found, secret "zz" not found]`,
		`projected: {sources: [{clusterTrustBundle: {name: yy, path: p}}]}`: `"x" : while getting ClusterTrustBundle: ` +
			`clustertrustbundle.certificates.k8s.io "yy" not found`,
		`fc: {wwids: [x]}`: "volumes of type fc are not supported yet",
		`ephemeral: {}`: `Unable to attach or mount volumes: unmounted volumes=[x], unattached volumes=[], failed to process volumes=[x]: ` +
			`error processing PVC ns/web-x: waiting for ephemeral volume controller to create the persistentvolumeclaim "web-x"`,
		`persistentVolumeClaim: {claimName: yy}`: `Unable to attach or mount volumes: unmounted volumes=[x], unattached volumes=[], ` +
			`failed to process volumes=[x]: error processing PVC ns/yy: failed to fetch PVC from API server: persistentvolumeclaims "yy" not found`,
		`hostPath: {path: /proc/version, type: Directory}`: "hostPath type check failed: /proc/version is " +
			"not a directory, it's a File",
		`hostPath: {path: /proc, type: File}`:            "hostPath type check failed: /proc is not a file, it's a Directory",
		`hostPath: {path: /proc, type: Socket}`:          "is not a socket file, it's a Directory",
		`hostPath: {path: /proc, type: CharDevice}`:      "is not a character device, it's a Directory",
		`hostPath: {path: /dev/null, type: BlockDevice}`: "is not a block device, it's a CharDevice",
		`hostPath: {path: /proc/none, type: Directory}`: "hostPath type check failed, /proc/none is not a directory, unable to determine " +
			`its type: path "/proc/none" does not exist`,
		`hostPath: {path: /proc/none/x, type: FileOrCreate}`:                                `"x" : open /proc/none/x: no such file or directory`,
		`emptyDir: {medium: HugePages}`:                                                     `no container requests huge pages`,
		`emptyDir: {medium: HugePages-2Mi}`:                                                 `requests huge pages of this size`,
		`downwardAPI: {items: [{path: p, fieldRef: {fieldPath: status.podIP}}]}`:            `field "status.podIP" is not supported`,
		`downwardAPI: {items: [{path: "../p", fieldRef: {fieldPath: metadata.name}}]}`:      `can't be a file of a volume`,
		`downwardAPI: {items: [{path: "a/../../p", fieldRef: {fieldPath: metadata.name}}]}`: `can't be a file of a volume`,
		`downwardAPI: {items: [{path: "/p", fieldRef: {fieldPath: metadata.name}}]}`:        `can't be a file of a volume`,
	} {
		t.Run(volume, func(t *testing.T) {
			m := mounter(t, cluster())
			_, err := m.Prepare(t.Context(), pod(t, `{volumes: [{name: x, `+volume+`}]}`))
			if err == nil || !strings.Contains(err.Error(), want) ||
				!strings.Contains(err.Error(), `volume "x"`) && !strings.Contains(err.Error(), "volumes=[x]") {
				t.Errorf("%s: error %v, want %q", volume, err, want)
			}
		})
	}
}

func TestOwnership(t *testing.T) {
	needRoot(t)
	m := mounter(t, cluster())
	p := pod(t, `{securityContext: {fsGroup: 4321, runAsUser: 1234}, containers: [{name: c}], volumes: [{name: e, emptyDir: {}},
		{name: c, configMap: {name: conf, defaultMode: 0400, items: [{key: a, path: d/a}]}},
		{name: p, projected: {sources: [{serviceAccountToken: {path: token}}]}}]}`)
	var paths map[string]string
	for range 2 { // for every container
		var err error
		if paths, err = m.Prepare(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		paths["e"]:                  "-rwxrwxrwx 0 4321 setgid",
		paths["c"] + "/d":           "-rwxr-xr-x 0 4321 setgid",
		paths["c"] + "/d/a":         "-r--r----- 0 4321",
		paths["p"] + "/token":       "-rw-r----- 1234 4321",
		paths["p"]:                  "-rwxrwxrwx 0 4321 setgid",
		paths["c"] + "/" + "..data": "-rwxr-xr-x 0 4321 setgid",
	} {
		t.Run(path, func(t *testing.T) {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			gid, uid := owner(info)
			got := fmt.Sprintf("%v %d %d", info.Mode().Perm(), uid, gid)
			if info.Mode()&fs.ModeSetgid != 0 {
				got += " setgid"
			}
			if got != want {
				t.Errorf("%s: %s, want %s", path, got, want)
			}
		})
	}
}

func TestRefresh(t *testing.T) {
	needRoot(t)
	c := cluster()
	m := mounter(t, c)
	p := pod(t, `{volumes: [{name: v, configMap: {name: conf}}, {name: o, configMap: {name: later, optional: true}},
		{name: s, secret: {secretName: pass}}, {name: so, secret: {secretName: later, optional: true}}, {name: p, projected: {sources: [
		{configMap: {name: conf, items: [{key: a, path: ca}]}}, {secret: {name: pass}}, {configMap: {name: later, optional: true}},
		{downwardAPI: {items: [{path: l, fieldRef: {fieldPath: "metadata.labels['app']"}}]}}]}},
		{name: d, downwardAPI: {items: [{path: note, fieldRef: {fieldPath: "metadata.annotations['note']"}}]}}]}`)
	if next, err := m.Refresh(t.Context(), p); next != 0 || err != nil {
		t.Fatalf("before Prepare: %v, %v", next, err)
	}
	paths, err := m.Prepare(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := os.Readlink(paths["v"] + "/..data")
	refresh := func() {
		t.Helper()
		if next, err := m.Refresh(t.Context(), p); next != 0 || err != nil {
			t.Fatalf("refresh: %v, %v", next, err)
		}
	}
	refresh()
	if same, _ := os.Readlink(paths["v"] + "/..data"); same != first {
		t.Error("a refresh without a change wrote the files again")
	}
	held, err := os.Open(paths["v"] + "/a") // a reader of the old state
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	c.seen["configmaps/ns/conf"] = &corev1.ConfigMap{Data: map[string]string{"a": "new", "d": "4"}}
	c.seen["configmaps/ns/later"] = &corev1.ConfigMap{Data: map[string]string{"x": "y"}}
	c.server["secrets/ns/pass"] = &corev1.Secret{Data: map[string][]byte{"word": []byte("open")}}
	c.server["secrets/ns/later"] = &corev1.Secret{Data: map[string][]byte{"z": []byte("w")}}
	p.Labels, p.Annotations = map[string]string{"app": "shop"}, map[string]string{"note": "mine"}
	refresh()
	for v, want := range map[string]map[string]string{"s": {"word": "644 open"}, "so": {"z": "644 w"},
		"p": {"ca": "644 new", "word": "644 open", "x": "644 y", "l": "644 shop"}, "d": {"note": "644 mine"}} {
		if got := tree(t, paths[v]); !maps.Equal(got, want) {
			t.Errorf("volume %s after the change: %q, want %q", v, got, want)
		}
	}
	want := map[string]string{"a": "644 new", "d": "644 4"}
	if got := tree(t, paths["v"]); !maps.Equal(got, want) {
		t.Errorf("after the change: %q", got)
	}
	if got := tree(t, paths["o"]); !maps.Equal(got, map[string]string{"x": "644 y"}) {
		t.Errorf("the optional one that appeared: %q", got)
	}
	if entries, _ := os.ReadDir(paths["v"]); len(entries) != 4 { // ..data, its directory, a, d
		t.Errorf("left behind: %v", entries)
	}
	delete(c.seen, "configmaps/ns/conf")
	if _, err := m.Refresh(t.Context(), p); err == nil || !strings.Contains(err.Error(), `volume "v": configmap "conf" not found`) {
		t.Errorf("refresh of a deleted one: %v", err)
	}
	if got := tree(t, paths["v"]); !maps.Equal(got, want) {
		t.Errorf("what was deleted in the API must stay: %q", got)
	}
}

func TestCrash(t *testing.T) {
	t.Attr("retry", "never") // data that is lost once is lost
	needRoot(t)
	m := mounter(t, cluster())
	p := pod(t, `{volumes: [{name: v, configMap: {name: conf, items: [{key: a, path: a}]}}]}`)
	paths, err := m.Prepare(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	dir := paths["v"] // what a crash between any two steps of replace may leave
	for _, err := range []error{os.Mkdir(dir+"/..2020_half", 0o700), os.Symlink("..2020_half", dir+"/..data_tmp"),
		os.Remove(dir + "/a"), os.Symlink("..data/gone", dir+"/gone")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	m = New(m.cfg)
	if _, err := m.Prepare(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, dir); !maps.Equal(got, map[string]string{"a": "644 1"}) {
		t.Errorf("after the crash: %q", got)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 3 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestTokens(t *testing.T) {
	needRoot(t)
	c := cluster()
	m := mounter(t, c)
	p := pod(t, `{volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t, expirationSeconds: 1000}}]}}]}`)
	began := time.Now()
	least := func() time.Duration { return 790*time.Second - time.Since(began) } // of what is left until a token is due
	paths, err := m.Prepare(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	next, err := m.Refresh(t.Context(), p)
	if err != nil || next < least() || next > 800*time.Second || c.tokens != 1 {
		t.Fatalf("next %v, %v, %d tokens", next, err, c.tokens)
	}
	for _, old := range m.state("u1").tokens { // time passes
		old.due = time.Now()
	}
	if next, err = m.Refresh(t.Context(), p); err != nil || c.tokens != 2 || next < least() {
		t.Fatalf("next %v, %v, %d tokens", next, err, c.tokens)
	}
	if got := tree(t, paths["v"])["t"]; got != "644 ns/default/token 2" {
		t.Errorf("token %q", got)
	}
	c.refuse = errors.New("no server")
	for _, old := range m.state("u1").tokens {
		old.due = time.Now()
	}
	if next, err = m.Refresh(t.Context(), p); err != nil || next > tokenRetry {
		t.Errorf("with a token that is still good: %v, %v", next, err)
	}
	for _, old := range m.state("u1").tokens {
		old.due, old.expiry = time.Now(), time.Now()
	}
	if _, err = m.Refresh(t.Context(), p); err == nil {
		t.Error("no error when the token has run out")
	}
}

func TestEmptyDirAndRemove(t *testing.T) {
	needRoot(t)
	m := mounter(t, cluster())
	p := pod(t,
		`{volumes: [{name: disk, emptyDir: {}}, {name: mem, emptyDir: {medium: Memory, sizeLimit: 64Ki}}, `+
			`{name: s, secret: {secretName: pass}}]}`)
	paths, err := m.Prepare(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	for v, want := range map[string]fs.FileMode{"disk": fs.ModePerm, "mem": fs.ModePerm | fs.ModeSticky, "s": fs.ModePerm | fs.ModeSticky} {
		t.Run(v, func(t *testing.T) {
			if info, err := os.Stat(paths[v]); err != nil || info.Mode() != want|fs.ModeDir {
				t.Errorf("%s: %v %v", v, info.Mode(), err)
			}
		})
	}
	for _, v := range []string{"disk", "mem"} {
		if err := os.WriteFile(paths[v]+"/f", []byte("kept"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(paths["mem"]+"/big", make([]byte, 1<<20), 0o600); err == nil {
		t.Error("the size limit of memory does not hold")
	}
	os.Remove(paths["mem"] + "/big")
	if _, err := New(m.cfg).Prepare(t.Context(), p); err != nil { // an agent that restarts
		t.Fatal(err)
	}
	for _, v := range []string{"disk", "mem"} {
		if text, err := os.ReadFile(paths[v] + "/f"); string(text) != "kept" {
			t.Errorf("%s: %q %v", v, text, err)
		}
	}
	if got := m.Orphans(); !slices.Equal(got, []types.UID{"u1"}) {
		t.Errorf("orphans %v", got)
	}
	held, err := os.Open(paths["mem"] + "/f") // somebody still uses it
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	for range 2 {
		if err := m.Remove(context.Background(), "u1"); err != nil {
			t.Fatal(err)
		}
	}
	points, err := mountPoints()
	if err != nil || slices.ContainsFunc(points, func(p string) bool { return strings.HasPrefix(p, m.cfg.Dir) }) {
		t.Errorf("still mounted: %v %v", points, err)
	}
	if got := m.Orphans(); len(got) != 0 {
		t.Errorf("orphans %v", got)
	}
	for _, uid := range []types.UID{"", "..", "a/b", "."} {
		if err := m.Remove(context.Background(), uid); err == nil {
			t.Errorf("Remove(%q): no error", uid)
		}
	}
}

func TestHostPath(t *testing.T) {
	m, dir := mounter(t, cluster()), t.TempDir()
	p := pod(t, fmt.Sprintf(`{volumes: [{name: d, hostPath: {path: %[1]s/d, type: DirectoryOrCreate}},
		{name: f, hostPath: {path: %[1]s/f, type: FileOrCreate}}, {name: any, hostPath: {path: /nowhere}}]}`, dir))
	for range 2 {
		paths, err := m.Prepare(t.Context(), p)
		if err != nil || paths["any"] != "/nowhere" {
			t.Fatal(paths, err)
		}
	}
	d, err1 := os.Stat(dir + "/d")
	f, err2 := os.Stat(dir + "/f")
	if err1 != nil || err2 != nil || !d.IsDir() || !f.Mode().IsRegular() {
		t.Error(err1, err2)
	}
}

// TestHostPathTypes asks for each sort of path as each sort.
func TestHostPathTypes(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	l, err := net.Listen("unix", dir+"/Socket")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := errors.Join(os.Mkdir(dir+"/Directory", 0o700), os.WriteFile(dir+"/File", nil, 0o600),
		unix.Mknod(dir+"/CharDevice", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))),
		unix.Mknod(dir+"/BlockDevice", unix.S_IFBLK|0o600, int(unix.Mkdev(7, 200)))); err != nil {
		t.Fatal(err)
	}
	sorts := []string{"Directory", "File", "Socket", "CharDevice", "BlockDevice"}
	for _, is := range append(sorts, "none") {
		for _, as := range append(sorts, "") {
			_, err := mounter(t, cluster()).Prepare(t.Context(),
				pod(t, fmt.Sprintf(`{volumes: [{name: v, hostPath: {path: %s/%s, type: %q}}]}`, dir, is, as)))
			if good := as == is || as == ""; good != (err == nil) || err != nil && !strings.Contains(err.Error(), "hostPath type check failed") {
				t.Errorf("%s as %q: %v", is, as, err)
			}
		}
	}
}

func TestClaim(t *testing.T) {
	dir, ref := t.TempDir(), &corev1.ObjectReference{UID: "c1"}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{UID: "c1"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}
	pending := &corev1.PersistentVolumeClaim{}
	for _, tt := range []struct {
		name  string
		claim *corev1.PersistentVolumeClaim
		pv    corev1.PersistentVolumeSpec
		err   string
	}{
		{"hostPath", claim, corev1.PersistentVolumeSpec{ClaimRef: ref,
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}}}, ""},
		{"local", claim, corev1.PersistentVolumeSpec{ClaimRef: ref,
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: dir}}}, ""},
		{"no directory", claim, corev1.PersistentVolumeSpec{ClaimRef: ref,
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/none"}}},
			`MountVolume.NewMounter initialization failed for volume "pv" : path "/none" does not exist`},
		{"fc", claim, corev1.PersistentVolumeSpec{ClaimRef: ref,
			PersistentVolumeSource: corev1.PersistentVolumeSource{FC: &corev1.FCVolumeSource{}}}, "only CSI, hostPath, local and NFS"},
		{"pending", pending, corev1.PersistentVolumeSpec{}, "is not bound"},
		{"another's", claim, corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{UID: "c2"}}, "is not bound to claim"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := cluster()
			c.server["persistentvolumeclaims/ns/data"], c.server["persistentvolumes//pv"] = tt.claim,
				&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: tt.pv}
			paths, err := mounter(t, c).Prepare(t.Context(), pod(t, `{volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]}`))
			switch {
			case tt.err == "" && (err != nil || paths["v"] != dir):
				t.Errorf("%s: %v %v", tt.name, paths, err)
			case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
				t.Errorf("%s: error %v, want %q", tt.name, err, tt.err)
			}
		})
	}
}

func TestOwnTree(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	if err := errors.Join(os.MkdirAll(dir+"/a/b", 0o700), os.WriteFile(dir+"/a/b/f", nil, 0o600),
		os.Symlink("/etc/passwd", dir+"/link")); err != nil {
		t.Fatal(err)
	}
	if refused, err := own(dir, 777, true); refused != nil || err != nil {
		t.Fatal(refused, err)
	}
	for path, want := range map[string]fs.FileMode{"": 0o775, "a": 0o770, "a/b": 0o770, "a/b/f": 0o660} {
		t.Run(path, func(t *testing.T) {
			info, err := os.Stat(filepath.Join(dir, path))
			if err != nil {
				t.Fatal(err)
			}
			if gid, _ := owner(info); gid != 777 || info.Mode().Perm() != want {
				t.Errorf("%q: %v of %d", path, info.Mode(), gid)
			}
		})
	}
	if info, _ := os.Stat("/etc/passwd"); info.Mode().Perm()&0o020 != 0 {
		t.Error("followed a symlink out of the volume")
	}
}

// Orphans lists the pods that have volumes on disk.
func (m *Mounter) Orphans() (list []types.UID) {
	entries, err := os.ReadDir(filepath.Join(m.cfg.Dir, "pods"))
	if err != nil {
		return nil // there never was a pod
	}
	for _, e := range entries {
		uid := types.UID(e.Name())
		_, err1 := os.Lstat(m.volumesDir(uid))
		_, err2 := os.Lstat(m.pinsDir(uid))
		if err1 == nil || err2 == nil {
			list = append(list, uid)
		}
	}
	return list
}
