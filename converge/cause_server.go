package converge

import (
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// A want is a way in which an API server is not well itself: what it is called, by what it is seen, and why it is so.
type want struct {
	cause string
	seen  func(s *convergence.Server) Health
	why   func(s *convergence.Server, l *look) *Finding
}

// wants are all of them, the worst first.
func wants() []want {
	return []want{
		{"StoreRefusesWrites", refusesWrites, storeRefuses},
		{"StoreMemberSilent", hasLostMember, memberSilent},
		{"StoreSlow", isSlow, storeSlow},
		{"CertificateEnds", hasOldCertificate, certificateEnds},
	}
}

// servers are the wants as gaps of the server's Lease in kube-system, by which servers show that they live (KEP-1965).
func servers() (list []Situation) {
	for _, n := range wants() {
		list = append(list, Situation{n.cause, []resource.Kind{kinds.Leases}, func(l *look) *Finding {
			if s := l.Loops.server(l.obj.(*coordinationv1.Lease)); s != nil && n.seen(s).Says != "" {
				return n.why(s, l)
			}
			return nil
		}})
	}
	return list
}

// serverHealth is the worst want of a server.
func serverHealth(s *convergence.Server, l *coordinationv1.Lease) Health {
	for _, n := range wants() {
		if h := n.seen(s); h.Says != "" {
			if host := l.Labels[corev1.LabelHostname]; host != "" {
				h.Says = "(the server on " + host + ") " + h.Says
			}
			return h
		}
	}
	return Health{}
}

func refusesWrites(s *convergence.Server) Health {
	if s.Refuses == "" {
		return Health{}
	}
	return Health{Says: "takes no writes", Want: "room for the store", Have: s.Refuses, Since: s.Since.Time}
}

// storeRefuses is a store that keeps the rest of the disk for what was accepted already. Reads and watches go on.
func storeRefuses(s *convergence.Server, l *look) *Finding {
	f := &Finding{Says: "has no room: " + s.Refuses + " (reads go on, and no loop gets further)", Owner: person, State: Blocked,
		Waits: on("Disk", refTo(l.kind, l.obj), ""), Next: does(gateway, "takes writes again by itself as soon as there is room"),
		Advice: []string{"free room on the disk with the server's data directory, or make it larger"}}
	if strings.Contains(s.Refuses, "quota") {
		f.Advice = []string{"delete what is not needed: deletions are taken, and the space comes back within a minute"}
	}
	return f
}

func hasLostMember(s *convergence.Server) Health {
	if len(s.Silent) == 0 {
		return Health{}
	}
	return Health{Says: "has lost a member of its store", Want: "all members answer", Have: fmt.Sprintf("%d are silent", len(s.Silent)),
		Since: s.Silent[0].Since.Time}
}

// memberSilent is a member of the store that runs no more, or that the network keeps away. As long as more than half of them answer each
// other, writes go on.
func memberSilent(s *convergence.Server, l *look) *Finding {
	var names []string
	for _, m := range s.Silent {
		names = append(names, m.Name+" ("+m.URL+")")
	}
	return &Finding{Says: "gets no answer of " + list(names, 3) + ": once half of all members are gone, nothing can be written",
		Owner: person, State: Missing, Waits: forName("Member", s.Silent[0].Name),
		Next: does("the member", "catches up by itself when it is reached again"),
		Advice: []string{"start the server there again, or mend the network between the two machines",
			"if that machine is gone for good, take its member out, then have another join: kloop member remove NAME"}}
}

func isSlow(s *convergence.Server) Health {
	if s.Slow == "" {
		return Health{}
	}
	return Health{Says: "writes slowly", Want: "a write within milliseconds", Have: s.Slow, Since: s.Since.Time}
}

// storeSlow is a disk that takes long to keep what it was given, or a machine that does not get to it. Every write waits for the disks of
// more than half of the members.
func storeSlow(s *convergence.Server, l *look) *Finding {
	return &Finding{Says: "waits for its disk: " + s.Slow + " (every loop is as slow, and leases that are renewed late are lost)",
		Owner: person, State: Waiting, Waits: on("Disk", refTo(l.kind, l.obj), ""),
		Next: does(gateway, "goes on, slowly; this is over when writes take less than a second"),
		Advice: []string{"see what else writes to that disk, or uses all processors: iostat -x 5, top",
			"put the server's data directory on a disk that syncs within 10 ms: an SSD, not an SD card or a network's disk"}}
}

func hasOldCertificate(s *convergence.Server) Health {
	if len(s.Ending) == 0 {
		return Health{}
	}
	c := s.Ending[0]
	return Health{Says: "has a certificate that should be another by now", Want: "a new certificate " + c.What,
		Have: "one that is good until " + c.Until.UTC().Format(time.RFC3339), Since: c.Since.Time}
}

// certificateEnds is a certificate that nobody exchanged in time: those that the authority signs for servers and nodes are exchanged by
// themselves long before.
func certificateEnds(s *convergence.Server, l *look) *Finding {
	var told []string
	for _, c := range s.Ending {
		verb, left := " ends in ", c.Until.Sub(l.Now)
		if left <= 0 {
			verb, left = " has ended, since ", -left
		}
		told = append(told, "the certificate "+c.What+verb+ago(left))
	}
	return &Finding{Says: "sees that " + list(told, 3), Owner: person, State: Blocked, Waits: on("Certificate", refTo(l.kind, l.obj), ""),
		Next: does(person, "puts another certificate in its place; the server reads files anew by itself"),
		Advice: []string{"see all certificates, and who shows which: kloop certs list",
			"those of servers are issued anew with: kloop certs renew", "a person gets a new kubeconfig with: kloop kubeconfig"}}
}

// server returns what the server with the Lease lacks; nil: the Lease is no server's, or the server is well.
func (p *Processes) server(l *coordinationv1.Lease) *convergence.Server {
	if l.Namespace != ownNamespace || !strings.HasPrefix(l.Name, "apiserver-") {
		return nil
	}
	for _, s := range p.unwell() {
		if s.Name == l.Name {
			return s
		}
	}
	return nil
}

// unwell are servers that lack something: this one, and those that tell of it.
func (p *Processes) unwell() (list []*convergence.Server) {
	if p == nil {
		return nil
	}
	if p.Own != nil {
		if s := p.Own(); s != nil {
			list = append(list, s)
		}
	}
	for _, r := range p.told() {
		if r.Server != nil {
			list = append(list, r.Server)
		}
	}
	return list
}

// unwellKeys are the Leases of servers that lack something: the gap cache looks at no others.
func (p *Processes) unwellKeys() (keys []loop.Key) {
	for _, s := range p.unwell() {
		keys = append(keys, loop.Key{Kind: kinds.Leases, Namespace: ownNamespace, Name: s.Name})
	}
	return keys
}
