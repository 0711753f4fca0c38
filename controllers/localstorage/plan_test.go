package localstorage

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/kinds/localvolume"
)

func claim(edit ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	name := classPath
	p := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "u"},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &name, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": apiresource.MustParse("1Gi")}}}}
	for _, e := range edit {
		e(p)
	}
	return p
}

func made(edit ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	v := persistentVolume(wish{claim: claim(), class: class(classPath, nil)}, n, "/d")
	v.Status.Phase = corev1.VolumeBound
	for _, e := range edit {
		e(v)
	}
	return v
}

// text tells what a todo wants, in one line.
func text(d todo) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(d.set)) {
		list = append(list, d.set[name].Do+" "+d.set[name].Dir)
	}
	for _, name := range d.drop {
		list = append(list, "drop "+name)
	}
	for _, name := range d.orphans {
		list = append(list, "orphan "+name)
	}
	for _, x := range d.create {
		list = append(list, "create "+nameOf(x.claim))
	}
	for _, r := range d.refuse {
		list = append(list, fmt.Sprintf("refuse %s move=%t", r.claim.Name, r.move))
	}
	for _, f := range d.failed {
		list = append(list, "failed "+f.pv.Name+": "+f.why)
	}
	for _, v := range d.remove {
		list = append(list, "remove "+v.Name)
	}
	for _, v := range d.letGo {
		list = append(list, "let go "+v.Name)
	}
	for _, v := range d.enlarge {
		size := v.Spec.Capacity["storage"]
		list = append(list, "enlarge "+v.Name+" to "+size.String())
	}
	for _, p := range d.enlarged {
		size := p.Status.Capacity["storage"]
		list = append(list, "enlarged "+p.Name+" to "+size.String())
	}
	return strings.Join(list, ", ")
}

func TestPlan(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	bound := func(p *corev1.PersistentVolumeClaim) {
		p.Spec.VolumeName, p.Status.Phase = "pvc-u", corev1.ClaimBound
		p.Status.Capacity = corev1.ResourceList{"storage": apiresource.MustParse("1Gi")}
	}
	asks := func(size string) func(p *corev1.PersistentVolumeClaim) {
		return func(p *corev1.PersistentVolumeClaim) {
			p.Spec.Resources.Requests["storage"] = apiresource.MustParse(size)
		}
	}
	phase := func(x corev1.PersistentVolumePhase) func(*corev1.PersistentVolume) {
		return func(v *corev1.PersistentVolume) { v.Status.Phase = x }
	}
	retain := func(v *corev1.PersistentVolume) {
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	}
	going := func(v *corev1.PersistentVolume) { v.DeletionTimestamp = &metav1.Time{} }
	form := func(f string) func(*corev1.PersistentVolume) {
		return func(v *corev1.PersistentVolume) { v.Annotations[localvolume.Form] = f }
	}
	const dir, gi = "pvc-u_ns_data", int64(1 << 30)
	mk := localvolume.Order{Do: localvolume.Make, Dir: dir, Form: localvolume.Directory, Size: gi}
	rm := localvolume.Order{Do: localvolume.Remove, Dir: dir, Form: localvolume.Directory}
	grow := localvolume.Order{Do: localvolume.Grow, Dir: dir, Form: localvolume.Ext4, Size: 2 * gi}
	done := func(o localvolume.Order) localvolume.Order { o.Done = true; return o }
	failed := func(o localvolume.Order) localvolume.Order { o.Failed = "no room"; return o }
	wishes := func(p *corev1.PersistentVolumeClaim) []wish { return []wish{{claim: p, class: class(classPath, nil)}} }
	for _, tt := range []struct {
		name   string
		wishes []wish
		volume *volume
		order  *localvolume.Order
		gone   bool // the node
		silent bool // it offers no storage
		want   string
	}{
		{name: "nothing"},
		{name: "a claim", wishes: wishes(claim()), want: "make " + dir},
		{name: "a claim whose volume is under way", wishes: wishes(claim()), order: &mk},
		{name: "a claim whose volume is made", wishes: wishes(claim()), order: new(done(mk)), want: "create pvc-u"},
		{name: "a claim whose volume can't be made", wishes: wishes(claim()), order: new(failed(mk)), want: "refuse data move=true"},
		{name: "a claim that asks for another size than before", wishes: wishes(claim(asks("2Gi"))), order: new(done(mk)), want: "make " + dir},
		{name: "a claim that comes back while its volume is removed", wishes: wishes(claim()), order: new(done(rm)), want: "make " + dir},
		{name: "a claim on a node that offers nothing", wishes: wishes(claim()), silent: true, want: "refuse data move=true"},
		{name: "a claim for many nodes", wishes: wishes(claim(func(p *corev1.PersistentVolumeClaim) {
			p.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
		})), want: "refuse data move=false"},
		{name: "a claim whose volume is there", wishes: wishes(claim()), volume: &volume{made(), claim()}, order: new(done(mk)),
			want: "drop pvc-u"},
		{name: "a bound volume", volume: &volume{made(), claim(bound)}},
		{name: "a bound volume with an order to remove it", volume: &volume{made(), claim(bound)}, order: &rm, want: "drop pvc-u"},
		{name: "a bound volume that a person deletes", volume: &volume{made(going), claim(bound)}},
		{name: "released", volume: &volume{made(phase(corev1.VolumeReleased)), nil}, want: "remove " + dir},
		{name: "its claim is gone, and the binder has not seen it", volume: &volume{made(), nil}},
		{name: "released, on its way", volume: &volume{made(phase(corev1.VolumeReleased)), nil}, order: &rm},
		{name: "released, and it can't be removed", volume: &volume{made(phase(corev1.VolumeReleased)), nil},
			order: new(failed(rm)), want: "failed pvc-u: node n: no room"},
		{name: "released and removed", volume: &volume{made(phase(corev1.VolumeReleased)), nil}, order: new(done(rm)), want: "remove pvc-u"},
		{name: "released, on a node that is gone", volume: &volume{made(phase(corev1.VolumeReleased)), nil}, gone: true, want: "remove pvc-u"},
		{name: "released, of a path that is not ours", volume: &volume{made(phase(corev1.VolumeReleased), func(v *corev1.PersistentVolume) {
			v.Spec.Local.Path = "/d/pvc-other_ns_data"
		}), nil}, want: "failed pvc-u: its path is not one that local storage gives"},
		{name: "released, to be kept", volume: &volume{made(phase(corev1.VolumeReleased), retain), nil}},
		{name: "released, to be kept after all", volume: &volume{made(phase(corev1.VolumeReleased), retain), nil}, order: &rm,
			want: "drop pvc-u"},
		{name: "to be kept, and its object deleted", volume: &volume{made(phase(corev1.VolumeReleased), retain, going), nil},
			want: "let go pvc-u"},
		{name: "deleted before it was released", volume: &volume{made(phase(corev1.VolumeAvailable), going), nil}, want: "remove " + dir},
		{name: "it is to grow", volume: &volume{made(), claim(bound, asks("2Gi"))}, want: "enlarge pvc-u to 2Gi"},
		{name: "it has grown", volume: &volume{
			made(func(v *corev1.PersistentVolume) { v.Spec.Capacity["storage"] = apiresource.MustParse("2Gi") }), claim(bound, asks("2Gi"))},
			want: "enlarged data to 2Gi"},
		{name: "an image is to grow", volume: &volume{made(form(localvolume.Ext4)), claim(bound, asks("2Gi"))}, want: "grow " + dir},
		{name: "an image grows", volume: &volume{made(form(localvolume.Ext4)), claim(bound, asks("2Gi"))}, order: &grow},
		{name: "an image has grown", volume: &volume{made(form(localvolume.Ext4)), claim(bound, asks("2Gi"))},
			order: new(done(grow)), want: "enlarge pvc-u to 2Gi"},
		{name: "an image can't grow", volume: &volume{made(form(localvolume.Ext4)), claim(bound, asks("2Gi"))},
			order: new(failed(grow)), want: "failed pvc-u: node n: no room"},
		{name: "a volume was made and its claim is gone", order: new(done(mk)), want: "orphan pvc-u"},
		{name: "a volume is being made and its claim is gone", order: &mk, want: "orphan pvc-u"},
		{name: "all is removed", order: new(done(rm)), want: "drop pvc-u"},
		{name: "what is left is being removed", order: &rm},
		{name: "an order that can't be read", order: &localvolume.Order{}, want: "drop pvc-u"},
		{name: "an order to remove what is not the volume's", order: &localvolume.Order{Do: localvolume.Remove,
			Dir: "pvc-other_x"}, want: "drop pvc-u"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := world{name: "n", node: node, path: "/d", wishes: tt.wishes, orders: map[string]localvolume.Order{}}
			if tt.gone {
				w.node, w.path = nil, ""
			}
			if tt.silent {
				w.path = ""
			}
			if tt.volume != nil {
				w.volumes = []volume{*tt.volume}
			}
			if tt.order != nil {
				w.orders["pvc-u"] = *tt.order
			}
			if got := text(plan(w)); got != tt.want {
				t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
			}
		})
	}
}

// TestBound has more claims than orders may stand on one Node.
func TestBound(t *testing.T) {
	w := world{name: "n", node: &corev1.Node{}, path: "/d", orders: map[string]localvolume.Order{}}
	for i := range 3 * maxOrders {
		w.wishes = append(w.wishes, wish{claim: claim(func(p *corev1.PersistentVolumeClaim) { p.UID = types.UID(strconv.Itoa(i)) }),
			class: class(classPath, nil)})
	}
	for done := 0; done < 3*maxOrders; {
		d := plan(w)
		if len(d.set) == 0 || len(d.set)+len(w.orders) > maxOrders {
			t.Fatalf("%d orders beside %d", len(d.set), len(w.orders))
		}
		for name := range d.set { // done, and the volumes are there
			w.wishes = slices.DeleteFunc(w.wishes, func(x wish) bool { return nameOf(x.claim) == name })
			done++
		}
	}
}

func TestFormOf(t *testing.T) {
	block := corev1.PersistentVolumeBlock
	asBlock := func(p *corev1.PersistentVolumeClaim) { p.Spec.VolumeMode = &block }
	image := func(fs string) *storagev1.StorageClass {
		return &storagev1.StorageClass{Parameters: map[string]string{parameterForm: formImage, parameterFS: fs}}
	}
	for _, tt := range []struct {
		name   string
		class  *storagev1.StorageClass
		claim  *corev1.PersistentVolumeClaim
		want   string
		refuse bool
	}{
		{"directory", class(classPath, nil), claim(), localvolume.Directory, false},
		{"block from directories", class(classPath, nil), claim(asBlock), localvolume.Directory, true},
		{"ext4 by default", image(""), claim(), localvolume.Ext4, false},
		{"xfs", image("xfs"), claim(), localvolume.XFS, false},
		{"unknown file system", image("ntfs"), claim(), "ntfs", true},
		{"image of a directory", image("directory"), claim(), "directory", true},
		{"block from images", image(""), claim(asBlock), localvolume.Block, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, why := formOf(tt.class, tt.claim), unfit(wish{claim: tt.claim, class: tt.class}); got != tt.want || (why != "") != tt.refuse {
				t.Errorf("%s: got %s, refused %q; want %s, %t", tt.class.Name, got, why, tt.want, tt.refuse)
			}
		})
	}
}

// TestDefault has one default class, unless somebody else's is the default.
func TestDefault(t *testing.T) {
	if s := class(classPath, nil); s.Annotations[isDefault] != "true" {
		t.Error("local-path is not the default")
	}
	other := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{isDefault: "true"}}}
	if s := class(classPath, []*storagev1.StorageClass{other}); s.Annotations[isDefault] != "" {
		t.Error("there are two defaults")
	}
	if s := class(classStandard, nil); s == nil || s.Annotations[isDefault] != "" {
		t.Error("the alias is missing, or a default too")
	}
	if class("other", nil) != nil {
		t.Error("a class of another name is made")
	}
}
