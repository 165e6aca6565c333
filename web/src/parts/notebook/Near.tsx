import { useEffect, useRef, useState, type ReactNode } from "react";

const AROUND = "1200px 0px";

/** Its children, as soon as they are near the visible part of the notebook: a long one has many frames and pictures. */
export function Near({ height, children }: { height: number; children: ReactNode }) {
  const place = useRef<HTMLDivElement>(null);
  const [isNear, setNear] = useState(false);
  useEffect(() => {
    const element = place.current;
    if (!element || isNear) return;
    const observer = new IntersectionObserver(([entry]) => entry?.isIntersecting && setNear(true), {
      root: element.closest("[data-notebook]"),
      rootMargin: AROUND,
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, [isNear]);
  return isNear ? children : <div ref={place} style={{ height }} />;
}
