package nodeipam

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestPlan(t *testing.T) {
	v4 := Pool{netip.MustParsePrefix("10.244.0.0/22"), 24} // four ranges
	v6 := Pool{netip.MustParsePrefix("fd00::/56"), 64}
	for _, tt := range []struct {
		name  string
		pools []Pool
		nodes []string // what they have; "": nothing
		want  string
		less  int // nodes that get none
	}{
		{"the first", []Pool{v4}, []string{""}, "[[10.244.0.0/24]]", 0},
		{"the gap", []Pool{v4}, []string{"10.244.0.0/24", "10.244.2.0/24", ""}, "[[10.244.1.0/24]]", 0},
		{"several at once", []Pool{v4}, []string{"", "10.244.0.0/24", ""}, "[[10.244.1.0/24] [10.244.2.0/24]]", 0},
		{"used up", []Pool{v4}, []string{"10.244.0.0/24", "10.244.1.0/24", "10.244.2.0/24", "", ""}, "[[10.244.3.0/24]]", 1},
		{"a wide range of another's", []Pool{v4}, []string{"10.244.0.0/23", ""}, "[[10.244.2.0/24]]", 0},
		{"a part of a range", []Pool{v4}, []string{"10.244.0.128/25", ""}, "[[10.244.1.0/24]]", 0},
		{"ranges from elsewhere", []Pool{v4}, []string{"10.9.0.0/24", "what", ""}, "[[10.244.0.0/24]]", 0},
		{"both families", []Pool{v4, v6}, []string{"", ""}, "[[10.244.0.0/24 fd00::/64] [10.244.1.0/24 fd00:0:0:1::/64]]", 0},
		{"more than all of it", []Pool{v6}, []string{"::/0", ""}, "[]", 1},
		{"all of it taken by one", []Pool{v4}, []string{"10.0.0.0/8", ""}, "[]", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var nodes []*corev1.Node
			for i, have := range tt.nodes {
				n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}}
				if have != "" {
					n.Spec.PodCIDRs = []string{have}
				}
				nodes = append(nodes, n)
			}
			given, without := plan(nodes, tt.pools)
			got := [][]string{}
			for _, n := range given {
				got = append(got, n.Spec.PodCIDRs)
			}
			if fmt.Sprint(got) != tt.want || len(without) != tt.less {
				t.Errorf("%s: %v, %d without; want %s, %d", tt.name, got, len(without), tt.want, tt.less)
			}
		})
	}
}

// TestTold: a node that gets no range has one event, however often others join; one that had a range meanwhile has another.
func TestTold(t *testing.T) {
	var said told
	for _, pass := range []struct{ name, without, want string }{{"two", "a b", "a b"}, {"again", "a b", ""}, {"one more", "a b c", "c"},
		{"two got theirs", "b", ""}, {"and lost them", "a b c", "a c"}, {"none", "", ""}} {
		t.Run(pass.name, func(t *testing.T) {
			var nodes []*corev1.Node
			for _, name := range strings.Fields(pass.without) {
				nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}})
			}
			var got []string
			for _, n := range said.news(nodes) {
				got = append(got, n.Name)
			}
			if strings.Join(got, " ") != pass.want {
				t.Errorf("%v, want %s", got, pass.want)
			}
		})
	}
}
