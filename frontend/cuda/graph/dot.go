package graph

import (
	"fmt"
	"strings"
)

// Dot describes the graph in the language of Graphviz. Label returns what a node does, in a few
// lines. Children and bodies are clusters.
func (g *Graph) Dot(label func(*Node) string) string {
	var b strings.Builder
	b.WriteString("digraph dot {\n")
	next := 0
	g.dot(&b, label, &next)
	b.WriteString("}\n")
	return b.String()
}

func (g *Graph) dot(b *strings.Builder, label func(*Node) string, next *int) {
	cluster := *next
	*next++
	fmt.Fprintf(b, "subgraph cluster_%d {\nlabel=\"graph_%d\";\n", cluster, cluster)
	name := make(map[*Node]string, len(g.nodes))
	for i, n := range g.nodes {
		name[n] = fmt.Sprintf("\"graph_%d_node_%d\"", cluster, i)
		fmt.Fprintf(b, "%s [shape=\"box\" label=%q];\n", name[n], fmt.Sprintf("%d\n%s", i, label(n)))
	}
	for _, e := range g.Edges() {
		fmt.Fprintf(b, "%s -> %s;\n", name[e.From], name[e.To])
	}
	for _, n := range g.nodes {
		for _, inner := range n.Inner() {
			fmt.Fprintf(b, "%s -> \"graph_%d_node_0\" [style=dotted lhead=cluster_%d];\n", name[n], *next, *next)
			inner.dot(b, label, next)
		}
	}
	b.WriteString("}\n")
}
