package servicecidr

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestNeeded(t *testing.T) {
	cidr := func(uid, text string) *networkingv1.ServiceCIDR {
		return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)},
			Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{text}}}
	}
	r := cidr("r", "10.0.0.0/24")
	for _, tt := range []struct {
		name    string
		others  []*networkingv1.ServiceCIDR
		address string
		want    string
	}{
		{"none", nil, "", ""},
		{"elsewhere", nil, "10.1.0.1", ""},
		{"inside", nil, "10.0.0.7", "10.0.0.7"},
		{"inside another too", []*networkingv1.ServiceCIDR{cidr("o", "10.0.0.0/16")}, "10.0.0.7", ""},
		{"another covers the rest", []*networkingv1.ServiceCIDR{cidr("o", "10.0.1.0/24")}, "10.0.0.7", "10.0.0.7"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var list []*networkingv1.IPAddress
			if tt.address != "" {
				list = append(list, &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: tt.address}})
			}
			if got := needed(r, append(tt.others, r), list); got != tt.want {
				t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
			}
		})
	}
}
