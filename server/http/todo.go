package httpapi

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/server"
)

func (c *call) streamed() bool         { return false }
func (c *call) stream() error          { return generic(http.StatusNotFound) }
func (c *call) patchCalled() error     { return generic(http.StatusNotFound) }
func isWebSocket(r *http.Request) bool { return false }
func (c *call) watchSocket(req *server.Request, o *metav1.ListOptions, f framer) error {
	return generic(http.StatusNotFound)
}
