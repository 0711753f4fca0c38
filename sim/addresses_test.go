package sim

import (
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// TestAddresses: addresses of pods lie in the ranges, are different, and are learned again by a process that starts.
func TestAddresses(t *testing.T) {
	for _, texts := range [][]string{nil, {"10.1.0.0/24"}, {"fd00::/64"}, {"10.1.0.0/28", "fd00::ff00/120"}, {"fd00::/56", "10.0.0.0/8"}} {
		var ranges []netip.Prefix
		for _, s := range texts {
			ranges = append(ranges, netip.MustParsePrefix(s))
		}
		v, seen := view.New(kinds.NewSet()), map[string]bool{}
		var list []resource.Object
		ips := inRanges(ranges)
		for i := range 12 {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("p", i)}}
			at := ips.take(v.Snapshot(), p)
			if len(at) != max(1, len(ranges)) {
				t.Fatalf("%v: %v", texts, at)
			}
			for i, r := range ranges {
				if a := netip.MustParseAddr(at[i]); !r.Contains(a) || seen[at[i]] || a == r.Addr() {
					t.Errorf("%v: %v", texts, at)
				}
				seen[at[i]] = true
			}
			p.Status.PodIP = at[0]
			list = append(list, p)
		}
		v.Replace(kinds.Pods, 1, list)
		again := inRanges(ranges)
		for _, o := range list {
			if p := o.(*corev1.Pod); again.take(v.Snapshot(), p)[0] != p.Status.PodIP {
				t.Errorf("%v: %s had %s", texts, p.Name, p.Status.PodIP)
			}
		}
		if fresh := again.take(v.Snapshot(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "fresh"}}); seen[fresh[0]] {
			t.Errorf("%v: %v is given twice", texts, fresh)
		}
	}
}
