package node

import (
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

func ownUsersOf(p *corev1.Pod) { p.Spec.HostUsers = new(bool) }

// users are the first ids of the newest container of the name, in its namespace and in its mounts of the host.
func (r *rig) users(container string) (first uint32, mounted []uint32) {
	c := r.rt.newest(container)
	o := c.Linux.SecurityContext.NamespaceOptions.UsernsOptions
	if o.GetMode() != cri.NamespaceMode_POD || len(o.Uids) != 1 || len(o.Gids) != 1 || o.Uids[0].Length != idsPerPod {
		return 0, nil
	}
	for _, m := range c.Mounts {
		if len(m.UidMappings) == 1 && len(m.GidMappings) == 1 {
			mounted = append(mounted, m.UidMappings[0].HostId)
		}
	}
	return o.Uids[0].HostId, mounted
}

// startedOwn is what the agent counted of sandboxes with users of their own.
func (r *rig) startedOwn() (began, failed float64) {
	return r.counted("kubelet_started_user_namespaced_pods_total"), r.counted("kubelet_started_user_namespaced_pods_errors_total")
}

// Pods with users of their own share no ids, with each other or the machine; an agent that starts anew remembers.
func TestOwnUsers(t *testing.T) {
	simulate(t, func(r *rig) {
		r.stop()
		r.rt.handlers = []*cri.RuntimeHandler{{Features: &cri.RuntimeHandlerFeatures{UserNamespaces: true}}}
		r.start()
		seen := map[uint32]string{}
		check := func(name string) uint32 {
			r.pod(name, ownUsersOf, "c-"+name)
			r.reaches(name, corev1.PodRunning)
			first, mounted := r.users("c-" + name)
			if first < idsPerPod || first%idsPerPod != 0 || seen[first] != "" {
				t.Errorf("pod %s has ids from %d on, which %q has", name, first, seen[first])
			}
			seen[first] = name
			if len(mounted) < 2 || mounted[0] != first {
				t.Errorf("pod %s: the mounts of the host belong to %v", name, mounted)
			}
			return first
		}
		a := check("a")
		check("b")
		for _, req := range r.rt.boxReqs {
			if req.Config.Linux.SecurityContext.NamespaceOptions.UsernsOptions.GetMode() != cri.NamespaceMode_POD {
				t.Errorf("sandbox: %v", req.Config.Linux.SecurityContext)
			}
		}
		r.stop()
		r.start()
		check("c")
		r.rt.exit("c-a", 1)
		r.until("it runs again", func() bool { return r.get("a").Status.ContainerStatuses[0].RestartCount == 1 })
		if first, _ := r.users("c-a"); first != a {
			t.Errorf("ids from %d on after a restart, and from %d before", first, a)
		}
		if err := r.Delete(r.t.Context(), kinds.Pods, "d", "a", nil); err != nil {
			t.Fatal(err)
		}
		r.until("it is gone", func() bool { return r.get("a") == nil })
		delete(seen, a)
		if got := check("d"); got != a {
			t.Errorf("the ids of a pod that is gone are not given again: %d", got)
		}
		n := resource.Get(r.Read(), kinds.Nodes, "", "n")
		if list := n.Status.RuntimeHandlers; len(list) != 1 || !*list[0].Features.UserNamespaces {
			t.Errorf("%+v", list)
		}
		r.pod("host", nil, "h")
		r.reaches("host", corev1.PodRunning)
		if o := r.rt.newest("h").Linux.SecurityContext.NamespaceOptions.UsernsOptions; o != nil {
			t.Errorf("of a pod with the machine's users: %v", o)
		}
		if began, failed := r.startedOwn(); began != 2 || failed != 0 { // since the agent started anew: c and d
			t.Errorf("counted: %v, failed %v", began, failed)
		}
	})
}

// Where the runtime can't, such a pod does not run with the machine's users instead.
func TestOwnUsersRefused(t *testing.T) {
	simulate(t, func(r *rig) {
		r.pod("p", ownUsersOf, "a")
		r.until("it says so", func() bool { return strings.Contains(r.events("p"), "FailedCreatePodSandBox") })
		r.rests(time.Minute)
		if containers, boxes := r.rt.count(); containers+boxes > 0 {
			t.Error("it runs")
		}
		if began, failed := r.startedOwn(); began == 0 || began != failed {
			t.Errorf("counted: %v, failed %v", began, failed)
		}
	})
}

// A file that can't be read lets no pod have ids that another may have.
func TestOwnUsersBrokenFile(t *testing.T) {
	simulate(t, func(r *rig) {
		r.stop() // an agent that runs removes what no pod has
		u := &userRanges{common: r.agent.common}
		p := testPod(corev1.RestartPolicyAlways, "", "a")
		ownUsersOf(p)
		if o, err := u.options(p); err != nil || o.Uids[0].HostId != idsPerPod {
			t.Fatalf("%v, %v", o, err)
		}
		for _, text := range []string{"", "{}", `{"uidMappings":[{"hostId":5,"length":65536}]}`} {
			if err := os.WriteFile(u.file(p.UID), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			again := &userRanges{common: r.agent.common}
			if o, err := again.options(p); err == nil {
				t.Errorf("%q: %v", text, o)
			}
		}
	})
}
