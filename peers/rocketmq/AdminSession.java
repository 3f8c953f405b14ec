import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Many mqadmin commands in one JVM: a command a line on standard input, its words separated by
 * tabs, the first the time it may take in ms. What it prints comes out, then a line with "\u0004".
 * A command that does not return in its time is left running, and is best the last.
 */
public class AdminSession {
    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        BufferedReader lines = new BufferedReader(
            new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t");
            String[] command = new String[words.length - 1];
            System.arraycopy(words, 1, command, 0, command.length);
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            PrintStream capture = new PrintStream(printed, true, "UTF-8");
            System.setOut(capture);
            System.setErr(capture);
            Thread thread = new Thread(() -> {
                try {
                    forgetCommands();
                    MQAdminStartup.main0(command, null);
                } catch (Throwable failure) {
                    failure.printStackTrace();
                }
            });
            thread.setDaemon(true);
            thread.start();
            thread.join(Long.parseLong(words[0]));
            answers.write(printed.toByteArray());
            answers.println();
            answers.println("\u0004");
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    /** In a process of its own each command is a new one; some cannot run twice. */
    private static void forgetCommands() throws Exception {
        Field commands;
        try {
            commands = MQAdminStartup.class.getDeclaredField("SUB_COMMANDS");
        } catch (NoSuchFieldException ofVersion4) {
            commands = MQAdminStartup.class.getDeclaredField("subCommandList");
        }
        commands.setAccessible(true);
        ((List<?>) commands.get(null)).clear();
    }
}
