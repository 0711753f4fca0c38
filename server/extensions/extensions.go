// Package extensions is the table of what built-in kinds need of the front door beyond what their Defs say.
package extensions

import (
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/server/access"
	"github.com/kloop-dev/kloop/server/definitions"
	"github.com/kloop-dev/kloop/server/events"
	"github.com/kloop-dev/kloop/server/namespaces"
	"github.com/kloop-dev/kloop/server/services"
)

// Config holds what extensions need beside the server. The zero value is usable.
type Config struct {
	Network services.Network // the zero value means upstream's
	Access  access.Config
	More    func(*server.Server) []server.Extension // of what needs nodes, as workload.All; nil: of nothing
}

// New returns a server with all extensions, and the allocator of its services. It starts nothing.
func New(c server.Config, x Config) (*server.Server, *services.Allocator) {
	s := server.New(c)
	a := services.New(s, x.Network)
	s.Extend(components, a.Extension(), namespaces.Extension(s.Core), events.Extension())
	s.Extend(definitions.Extensions(s.Core)...)
	s.Extend(access.Extensions(s, x.Access)...)
	if x.More != nil {
		s.Extend(x.More(s)...)
	}
	return s, a
}
