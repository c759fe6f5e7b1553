package suite

var bfsBench = Bench{
	Name:        "bfs",
	Description: "breadth-first search in a random graph",
	Input:       "1,048,576 vertices with 6 edges each on average",
	Run:         runBfs,
}

const (
	bfsVertices  = 1 << 20
	bfsMinDegree = 2
	bfsMaxDegree = 10
	bfsSource    = 0
	bfsBlock     = 256
)

// graph holds the edges of vertex v in edge[first[v]:first[v+1]].
type graph struct {
	first []uint32
	edge  []uint32
}

// randomGraph has vertices of bfsMinDegree to bfsMaxDegree edges to anywhere.
func randomGraph(r *random, vertices int) graph {
	g := graph{first: make([]uint32, vertices+1)}
	for v := range vertices {
		g.first[v+1] = g.first[v] + uint32(r.between(bfsMinDegree, bfsMaxDegree))
	}
	g.edge = make([]uint32, g.first[vertices])
	for i := range g.edge {
		g.edge[i] = r.below(uint32(vertices))
	}
	return g
}

// levels is the number of edges from the source to each vertex, -1 where there is
// no way. Unlike the kernel it walks a queue of the vertices that were reached.
func (g graph) levels(source uint32) []int32 {
	level := make([]int32, len(g.first)-1)
	for i := range level {
		level[i] = -1
	}
	level[source] = 0
	queue := make([]uint32, 1, len(level))
	queue[0] = source
	for i := 0; i < len(queue); i++ {
		v := queue[i]
		for _, w := range g.edge[g.first[v]:g.first[v+1]] {
			if level[w] < 0 {
				level[w] = level[v] + 1
				queue = append(queue, w)
			}
		}
	}
	return level
}

func runBfs(e *Env) error {
	vertices := bfsVertices * e.scale
	g := randomGraph(newRandom(10), vertices)
	level := make([]int32, vertices)
	for i := range level {
		level[i] = -1
	}
	level[bfsSource] = 0

	s := e.begin("bfs", 4*len(g.first), 4*len(g.edge), 4*len(level), 4)
	first, edge, levels, more := s.mem[0], s.mem[1], s.mem[2], s.mem[3]
	s.htod(first, bytesOf(g.first))
	s.htod(edge, bytesOf(g.edge))
	s.htod(levels, bytesOf(level))
	for now := int32(0); now < int32(vertices); now++ {
		s.fill(more, 0, 1)
		s.launch("bfs_step", dim{uint32(vertices) / 4 / bfsBlock, 1}, dim{bfsBlock, 1},
			first, edge, levels, more, uint32(vertices), now)
		if s.peek(more) == 0 {
			break
		}
	}
	s.sync()
	s.dtoh(bytesOf(level), levels)
	if err := s.end(); err != nil {
		return err
	}
	return checkEqual("level", level, g.levels(bfsSource))
}
