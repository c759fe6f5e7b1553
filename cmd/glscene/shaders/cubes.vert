// place: where the cube is, and how far it is turned.
uniform highp vec4 place;
uniform highp vec4 color;
uniform highp float aspect;
attribute highp vec3 position;
attribute highp vec3 normal;
varying highp vec3 shade;

vec3 turned(vec3 v, float angle) {
	float s = sin(angle), c = cos(angle);
	v = vec3(c * v.x + s * v.z, v.y, c * v.z - s * v.x);
	return vec3(v.x, 0.8 * v.y - 0.6 * v.z, 0.6 * v.y + 0.8 * v.z);
}

void main() {
	// All cubes together stand askew, each turns in its place.
	vec3 p = turned(place.xyz, 0.6) + turned(position * 0.45, place.w);
	vec3 n = turned(normal, place.w);
	float light = 0.25 + 0.75 * max(dot(n, vec3(0.36, 0.48, 0.8)), 0.0);
	shade = color.rgb * light;
	float w = 12.0 - p.z;
	// Depth 5 is the near plane, 20 the far one.
	gl_Position = vec4(p.x * 2.0 * aspect, p.y * 2.0, (w - 8.0) / 0.6, w);
}
