// place: the middle, half the side, and the angle of the square.
uniform highp vec4 place;
uniform highp float aspect;
attribute highp vec2 corner;
varying highp vec2 at;

void main() {
	highp float s = sin(place.w), c = cos(place.w);
	highp vec2 p = vec2(c * corner.x - s * corner.y, s * corner.x + c * corner.y) * place.z;
	gl_Position = vec4(place.x + p.x * aspect, place.y + p.y, 0.0, 1.0);
	at = corner * 0.5 + 0.5;
}
