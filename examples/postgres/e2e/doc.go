// Package e2e runs a PostgresCluster in real containers on two nodes, each in a network namespace of its own, takes away its process, its
// pod and its node under load, and checks each row that was acknowledged. It needs root, containerd, and the image of scripts/image.
package e2e
