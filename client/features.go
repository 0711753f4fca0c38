package client

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/features"
)

// askFor bounds the questions to a server.
const askFor = 30 * time.Second

// Features asks a server which Kubernetes it is: its version, which is the one that it emulates if it says so, and what its metrics tell of
// feature gates. A server that does not show them has the defaults of its version; one that is older or newer than all that are known here
// counts as the nearest of them.
func Features(ctx context.Context, cfg *rest.Config) (*features.Set, error) {
	raw, err := Raw(cfg)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, askFor)
	defer stop()
	data, err := raw.Get().AbsPath("/version").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the server's version: %w", err)
	}
	var v struct{ Minor, EmulationMinor string }
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, fmt.Errorf("read the server's version: %w", err)
	}
	minor, err := strconv.Atoi(strings.TrimRight(cmp.Or(v.EmulationMinor, v.Minor), "+"))
	if err != nil {
		return nil, fmt.Errorf("read the server's version: %w", err)
	}
	body, err := raw.Get().AbsPath("/metrics").MaxRetries(0).Stream(ctx)
	switch answered := apierrors.APIStatus(nil); {
	case errors.As(err, &answered): // it is there, and does not tell
		return features.Told(minor, nil), nil
	case err != nil:
		return nil, fmt.Errorf("read the server's feature gates: %w", err)
	}
	defer func() { _ = body.Close() }()
	gates, err := readGates(io.LimitReader(body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the server's feature gates: %w", err)
	}
	return features.Told(minor, gates), nil
}

// readGates finds the feature gates in metrics.
func readGates(r io.Reader) (map[string]bool, error) {
	on := map[string]bool{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		labels, found := strings.CutPrefix(lines.Text(), "kubernetes_feature_enabled{")
		if !found {
			continue
		}
		_, rest, _ := strings.Cut(labels, `name="`)
		if name, value, ok := strings.Cut(rest, `"`); ok {
			on[name] = strings.HasSuffix(value, "} 1")
		}
	}
	return on, lines.Err()
}
