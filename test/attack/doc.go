// Package attack attacks a whole cluster over HTTP: who may do what, by every identity and every trick of a path
// (testdata/matrix.txt is the table), and what leaks.
package attack
