package server

import (
	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// A virtual kind whose objects the server computes when asked.
type compute func(s *Server, k resource.Kind) []resource.Object

// computed are the kinds that can be read though nothing of them is stored.
var computed = map[schema.GroupResource]compute{
	{Resource: "componentstatuses"}: componentStatuses,
}

func (c compute) get(s *Server, r *Request) (*view.Entry, error) {
	for _, obj := range c(s, r.Kind) {
		if obj.GetName() == r.Name {
			return view.NewEntry(r.Kind, 0, obj), nil
		}
	}
	return nil, notFound(r)
}

func (c compute) list(s *Server, r *Request) (*List, error) {
	l := &List{Entries: []*view.Entry{}}
	for _, obj := range c(s, r.Kind) {
		l.Entries = append(l.Entries, view.NewEntry(r.Kind, 0, obj))
	}
	return l, nil
}

// componentStatuses tells the health of the parts as upstream names them. They are one process: if this
// code runs, they run.
func componentStatuses(*Server, resource.Kind) (list []resource.Object) {
	for _, name := range []string{"controller-manager", "etcd-0", "scheduler"} {
		list = append(list, &core.ComponentStatus{ObjectMeta: metav1.ObjectMeta{Name: name},
			Conditions: []core.ComponentCondition{{Type: core.ComponentHealthy, Status: core.ConditionTrue, Message: "ok"}}})
	}
	return list
}
