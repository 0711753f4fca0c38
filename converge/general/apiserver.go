package general

import (
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds/convergence"
)

// leaseHealth finds a gap in a lease that is held and was not renewed in time, or in the server whose lease it is.
func leaseHealth(w *converge.World, l *coordinationv1.Lease) converge.Health {
	if s := ServerOf(w.Loops, l); s != nil {
		return serverHealth(s, l)
	}
	if ptr.Deref(l.Spec.HolderIdentity, "") == "" || l.Spec.RenewTime == nil || w.Now.Sub(l.Spec.RenewTime.Time) <= converge.LeaseLife(l) {
		return converge.Health{}
	}
	return converge.Health{Says: "is held by somebody who does not renew it", Want: "spec.renewTime within " +
		converge.LeaseLife(l).String(),
		Have:  "spec.renewTime=" + l.Spec.RenewTime.UTC().Format("2006-01-02T15:04:05Z"),
		Since: l.Spec.RenewTime.Add(converge.LeaseLife(l))}
}

// A Want is a way in which an API server is not well itself: what it is called, by what it is seen, and why it is so.
type Want struct {
	Cause string
	Seen  func(s *convergence.Server) converge.Health
	Why   func(s *convergence.Server, l *converge.Look) *converge.Finding
}

// Wants are all of them, the worst first.
func Wants() []Want {
	return []Want{
		{"StoreRefusesWrites", refusesWrites, storeRefuses},
		{"StoreMemberSilent", hasLostMember, memberSilent},
		{"StoreSlow", isSlow, storeSlow},
		{"CertificateEnds", hasOldCertificate, certificateEnds},
	}
}

// serverHealth is the worst want of a server.
func serverHealth(s *convergence.Server, l *coordinationv1.Lease) converge.Health {
	for _, n := range Wants() {
		if h := n.Seen(s); h.Says != "" {
			if host := l.Labels[corev1.LabelHostname]; host != "" {
				h.Says = "(the server on " + host + ") " + h.Says
			}
			return h
		}
	}
	return converge.Health{}
}

func refusesWrites(s *convergence.Server) converge.Health {
	if s.Refuses == "" {
		return converge.Health{}
	}
	return converge.Health{Says: "takes no writes", Want: "room for the store", Have: s.Refuses, Since: s.Since.Time}
}

// storeRefuses is a store that keeps the rest of the disk for what was accepted already. Reads and watches go on.
func storeRefuses(s *convergence.Server, l *converge.Look) *converge.Finding {
	f := &converge.Finding{Says: "has no room: " + s.Refuses + " (reads go on, and no loop gets further)", Owner: converge.Person,
		State: converge.Blocked,
		Waits: converge.On("Disk", converge.RefTo(l.Kind, l.Obj), ""), Next: converge.Does(converge.APIServer,
			"takes writes again by itself as soon as there is room"),
		Advice: []string{"free room on the disk with the server's data directory, or make it larger"}}
	if strings.Contains(s.Refuses, "quota") {
		f.Advice = []string{"delete what is not needed: deletions are taken, and the space comes back within a minute"}
	}
	return f
}

func hasLostMember(s *convergence.Server) converge.Health {
	if len(s.Silent) == 0 {
		return converge.Health{}
	}
	return converge.Health{Says: "has lost a member of its store", Want: "all members answer", Have: fmt.Sprintf("%d are silent",
		len(s.Silent)),
		Since: s.Silent[0].Since.Time}
}

// memberSilent is a member of the store that runs no more, or that the network keeps away. As long as more than half of them answer each
// other, writes go on.
func memberSilent(s *convergence.Server, l *converge.Look) *converge.Finding {
	var names []string
	for _, m := range s.Silent {
		names = append(names, m.Name+" ("+m.URL+")")
	}
	return &converge.Finding{Says: "gets no answer of " + words.List(names, 3) +
		": once half of all members are gone, nothing can be written",
		Owner: converge.Person, State: converge.Missing, Waits: converge.ForName("Member", s.Silent[0].Name),
		Next: converge.Does("the member", "catches up by itself when it is reached again"),
		Advice: []string{"start the server there again, or mend the network between the two machines",
			"if that machine is gone for good, take its member out, then have another join: kloop member remove NAME"}}
}

func isSlow(s *convergence.Server) converge.Health {
	if s.Slow == "" {
		return converge.Health{}
	}
	return converge.Health{Says: "writes slowly", Want: "a write within milliseconds", Have: s.Slow, Since: s.Since.Time}
}

// storeSlow is a disk that takes long to keep what it was given, or a machine that does not get to it. Every write waits for the disks of
// more than half of the members.
func storeSlow(s *convergence.Server, l *converge.Look) *converge.Finding {
	return &converge.Finding{Says: "waits for its disk: " + s.Slow + " (every loop is as slow, and leases that are renewed late are lost)",
		Owner: converge.Person, State: converge.Waiting, Waits: converge.On("Disk", converge.RefTo(l.Kind, l.Obj), ""),
		Next: converge.Does(converge.APIServer, "goes on, slowly; this is over when writes take less than a second"),
		Advice: []string{"see what else writes to that disk, or uses all processors: iostat -x 5, top",
			"put the server's data directory on a disk that syncs within 10 ms: an SSD, not an SD card or a network's disk"}}
}

func hasOldCertificate(s *convergence.Server) converge.Health {
	if len(s.Ending) == 0 {
		return converge.Health{}
	}
	c := s.Ending[0]
	return converge.Health{Says: "has a certificate that should be another by now", Want: "a new certificate " + c.What,
		Have: "one that is good until " + c.Until.UTC().Format(time.RFC3339), Since: c.Since.Time}
}

// certificateEnds is a certificate that nobody exchanged in time: those that the authority signs for servers and nodes are exchanged by
// themselves long before.
func certificateEnds(s *convergence.Server, l *converge.Look) *converge.Finding {
	var told []string
	for _, c := range s.Ending {
		verb, left := " ends in ", c.Until.Sub(l.Now)
		if left <= 0 {
			verb, left = " has ended, since ", -left
		}
		told = append(told, "the certificate "+c.What+verb+words.Ago(left))
	}
	return &converge.Finding{Says: "sees that " + words.List(told, 3), Owner: converge.Person, State: converge.Blocked,
		Waits: converge.On("Certificate", converge.RefTo(l.Kind, l.Obj), ""),
		Next:  converge.PersonDoes("puts another certificate in its place; the server reads files anew by itself"),
		Advice: []string{"see all certificates, and who shows which: kloop certs list",
			"those of servers are issued anew with: kloop certs renew", "a person gets a new kubeconfig with: kloop kubeconfig"}}
}

// ServerOf returns what the server with the Lease lacks; nil: the Lease is no server's, or the server is well.
func ServerOf(p *converge.Processes, l *coordinationv1.Lease) *convergence.Server {
	if l.Namespace != converge.OwnNamespace || !strings.HasPrefix(l.Name, "apiserver-") {
		return nil
	}
	for _, s := range p.Unwell() {
		if s.Name == l.Name {
			return s
		}
	}
	return nil
}
