import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Scanner;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** Uses classes that many programs use, so that the archive that programs start from contains them. */
final class Exercise {
    private record Pair(String name, int number) {}

    private Exercise() {}

    public static void main(String[] words) throws Exception {
        List<Integer> numbers = new ArrayList<>(List.of(3, 1, 2));
        numbers.sort(Comparator.reverseOrder());
        Map<String, Integer> counts = new TreeMap<>(Map.of("a", 1, "b", 2));
        counts.merge("a", 1, Integer::sum);
        counts.forEach((name, count) -> System.out.println(name + count));
        System.out.println(new HashMap<>(counts).computeIfAbsent("c", name -> 3) + new HashSet<>(numbers).size());
        System.out.println(numbers.stream().map(each -> each * 2).filter(each -> each > 2).collect(Collectors.toList()));
        System.out.println(numbers.stream().collect(Collectors.groupingBy(each -> each % 2, Collectors.counting())));
        System.out.println(numbers.stream().mapToInt(Integer::intValue).sum());
        System.out.println(IntStream.range(0, 5).mapToObj(Integer::toString).collect(Collectors.joining(",")));
        System.out.printf("%d %s %.2f %5d%n", 1, "a", 2.5, new Random(1).nextInt(9));
        System.out.println(String.format("%-5s|", "x") + String.join("-", List.of("a", "b")));
        System.out.println(new Pair("x", 2) + " " + new Pair("x", 2).equals(new Pair("x", 3)));
        System.out.println(Optional.of("x").map(String::toUpperCase).orElse(""));
        System.out.println(new StringBuilder("abc").reverse() + "a b".split(" ")[0] + "aXb".replaceAll("[A-Z]+", "-"));
        Scanner scanner = new Scanner(System.in);
        System.out.println(scanner.hasNextInt() ? scanner.nextInt() : 0);
        System.out.println(new BufferedReader(new InputStreamReader(System.in)).readLine());
        Thread thread = new Thread(() -> System.out.println(Thread.currentThread().getName()));
        thread.start();
        thread.join();
        new IllegalStateException("an exception, printed", new RuntimeException("and its cause")).printStackTrace();
    }
}
