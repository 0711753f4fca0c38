package client

import (
	"encoding/json"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/resource/codec"
)

// Refusal is the server's own word on why it refused; a client without a codec makes "unknown" of it.
func Refusal(answer []byte, err error) error {
	var st metav1.Status
	read := json.Unmarshal(answer, &st)
	if _, raw, bad := codec.OpenEnvelope(answer); bad == nil {
		read = st.Unmarshal(raw)
	}
	if read == nil && st.Status == metav1.StatusFailure && st.Code >= http.StatusBadRequest {
		return &apierrors.StatusError{ErrStatus: st}
	}
	return err
}
